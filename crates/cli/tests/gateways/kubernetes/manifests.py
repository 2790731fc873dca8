"""Reads YAML documents from stdin, and prints them as a JSON list.

Those that Kubernetes itself defines are validated; a misspelt member is an error. The list `custom` names the others.
"""

import json
import sys

import kubernetes_validate
import yaml

VERSION = "1.37"

custom = []
manifests = list(yaml.safe_load_all(sys.stdin))
for manifest in manifests if "--plain" not in sys.argv else []:
    name = f"{manifest['kind']} {manifest['metadata']['name']}"
    try:
        kubernetes_validate.validate(manifest, VERSION, strict=True)
    except kubernetes_validate.SchemaNotFoundError:
        custom.append(manifest["kind"])
    except kubernetes_validate.ValidationError as error:
        path = "/".join(map(str, error.absolute_path))
        sys.exit(f"{name}: /{path}: {error.message}")
json.dump({"manifests": manifests, "custom": custom}, sys.stdout)
