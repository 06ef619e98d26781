"""Prints an SPDX 2.3 document (JSON) of a release: what was built, what it was built from, and the libraries beside it.

    sbom.py VERSION DEPENDENCIES LIBRARIES FILE…

DEPENDENCIES is the output of `swift package show-dependencies --format json`. LIBRARIES has a line for each package of
the libraries that the archive and the image contain: name, version. The files are those of the release; their digests are in the
document. SOURCE_DATE_EPOCH is its time, so that two builds of one commit have equal bytes."""

import hashlib
import json
import os
import sys
import time
import uuid


def package(name, version, supplier, download, url, purpose="LIBRARY", license="NOASSERTION"):
    return {
        "SPDXID": "SPDXRef-" + "".join(c if c.isalnum() else "-" for c in f"{name}-{version}"), "name": name, "versionInfo": version,
        "supplier": supplier, "downloadLocation": download, "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
        "licenseDeclared": license, "copyrightText": "NOASSERTION", "primaryPackagePurpose": purpose,
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": url}],
    }


def main():
    version, dependencies, libraries, *files = sys.argv[1:]
    with open(dependencies, encoding="utf-8") as text:
        swift = json.load(text)["dependencies"]
    with open(libraries, encoding="utf-8") as text:
        debian = sorted({tuple(line.split()) for line in text if line.strip()})
    haul = package("haul", version, "NOASSERTION", "NOASSERTION", f"pkg:generic/haul@{version}", "APPLICATION", "Apache-2.0")
    parts = [
        package(each["name"], each["version"], "Organization: Apple", f"git+{each['url']}@{each['version']}",
                f"pkg:swift/{each['url'].removeprefix('https://')}@{each['version']}", license="Apache-2.0")
        for each in swift
    ] + [
        package(name, release, "Organization: Debian", "NOASSERTION", f"pkg:deb/debian/{name}@{release.replace(':', '%3A')}")
        for name, release in debian
    ]
    entries, digest = [], hashlib.sha256()
    for number, path in enumerate(sorted(files)):
        with open(path, "rb") as file:
            content = file.read()
        digest.update(content)
        entries.append({
            "SPDXID": f"SPDXRef-File-{number}", "fileName": "./" + os.path.basename(path),
            "checksums": [
                {"algorithm": "SHA1", "checksumValue": hashlib.sha1(content).hexdigest()},
                {"algorithm": "SHA256", "checksumValue": hashlib.sha256(content).hexdigest()},
            ],
            "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION",
        })
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", haul["SPDXID"])]
    relations += [(haul["SPDXID"], "DEPENDS_ON", part["SPDXID"]) for part in parts]
    relations += [(entry["SPDXID"], "GENERATED_FROM", haul["SPDXID"]) for entry in entries]
    print(json.dumps({
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"haul-{version}",
        # The namespace must differ for each document, and be the same for the same bytes.
        "documentNamespace": f"https://spdx.org/spdxdocs/haul-{version}-{uuid.UUID(digest.hexdigest()[:32])}",
        "creationInfo": {
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))),
            "creators": ["Tool: deploy/release.sh"],
        },
        "packages": [haul, *parts], "files": entries,
        "relationships": [
            {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other} for one, kind, other in relations],
    }, indent=1))


if __name__ == "__main__":
    main()
