"""A container image that holds nothing but the program, as one file: an OCI layout, which docker load reads, too."""
import datetime
import hashlib
import json

import archives

REPOSITORY = "muster"


def name(release):
    return f"muster-{release.version}-{release.architecture}-image.tar"


def as_json(value):
    return json.dumps(value, sort_keys=True).encode()


def make(release):
    blobs = {}

    def blob(data, media_type):
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {"mediaType": f"application/vnd.oci.image.{media_type}", "digest": f"sha256:{digest}", "size": len(data)}

    layer = archives.tar(release, {"muster": (release.program, 0o755)})
    platform = {"architecture": release.debian_architecture, "os": "linux"}
    created = datetime.datetime.fromtimestamp(release.made_at, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    layers = [blob(layer, "layer.v1.tar")]
    config = blob(as_json({**platform, "created": created, "config": {"Entrypoint": ["/muster"]},
                           "rootfs": {"type": "layers", "diff_ids": [layers[0]["digest"]]}}), "config.v1+json")
    manifest = blob(as_json({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                             "config": config, "layers": layers}), "manifest.v1+json")
    manifest["platform"] = platform

    def path(described):
        return "blobs/" + described["digest"].replace(":", "/")
    files = {f"blobs/sha256/{digest}": (data, 0o644) for digest, data in blobs.items()}
    files["oci-layout"] = (as_json({"imageLayoutVersion": "1.0.0"}), 0o644)
    files["index.json"] = (as_json({"schemaVersion": 2, "manifests": [manifest]}), 0o644)
    files["manifest.json"] = (as_json([{"Config": path(config), "Layers": [path(one) for one in layers],
                                        "RepoTags": [f"{REPOSITORY}:{release.version}"]}]), 0o644)
    return archives.tar(release, files)
