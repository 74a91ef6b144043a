#!/bin/sh
# Prints the image's name: dvo-worker-{first 8 hex digits of the recipe's SHA-256}. Another recipe has another name, so
# that a sandbox never starts from an image that is not the one in the repository.
set -eu
recipe=${1:-$(dirname "$0")/Dockerfile}
hash=$(sha256sum < "$recipe" | cut -c 1-8)
echo "dvo-worker-$hash"
