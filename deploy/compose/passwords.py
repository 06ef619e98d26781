"""Makes the passwords of a fleet, once: the roles of Redis, a URL for each, and a user of the page.

    passwords.py --acl DIRECTORY --haul DIRECTORY [--owner UID] [--template users.acl] [--redis HOST[:PORT]]

Passwords that exist already are kept. Only Python is needed.
"""

import argparse
import hashlib
import os
import pathlib
import re
import secrets

ROLES = ("worker", "web", "operator", "deploy", "producer", "service", "monitor")


def write(path, text, mode, owner):
    """Writes the file in one step: a service that starts meanwhile sees the whole file, or none."""
    new = path.with_suffix(".new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
        file.write(text)
    os.chmod(new, mode)
    if owner is not None:
        os.chown(new, owner, owner)
    new.rename(path)


def scrypt(password):
    """The hash of a password in the format of `haul web hash-password`."""
    salt = secrets.token_bytes(16)
    key = hashlib.scrypt(password.encode(), salt=salt, n=1 << 15, r=8, p=1, maxmem=1 << 26, dklen=32)
    return f"scrypt$15$8$1${salt.hex()}${key.hex()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--acl", type=pathlib.Path, required=True)
    parser.add_argument("--haul", type=pathlib.Path, required=True)
    parser.add_argument("--owner", type=int)
    parser.add_argument("--template", type=pathlib.Path, default=pathlib.Path("/users.acl"))
    parser.add_argument("--redis", default="redis:6379")
    given = parser.parse_args()
    page = given.haul / "page-password"
    if not (given.acl / "users.acl").exists():
        passwords = {}

        def password(match):
            role = match.group(1).lower()
            passwords[role] = secrets.token_urlsafe(24)
            return ">" + passwords[role]

        acl = re.sub(r">([A-Z]+)-PASSWORD", password, given.template.read_text())
        for role in ROLES:
            write(given.haul / role, f"redis://{role}:{passwords[role]}@{given.redis}\n", 0o400, given.owner)
        secret = secrets.token_urlsafe(18)
        write(given.haul / "users", f"admin operator {scrypt(secret)}\n", 0o400, given.owner)
        write(page, secret + "\n", 0o400, given.owner)
        # Only Redis mounts this directory, and has another user. The file is written last: if it exists, all others do.
        write(given.acl / "users.acl", acl, 0o444, None)
    print(f"The page: user admin, password {page.read_text().strip()}")
    print(f"Producers: {(given.haul / 'producer').read_text().strip()}")


main()
