"""Makes the passwords of a fleet: the roles of Redis, a URL for each in a directory of its own, and a user of the page.

    passwords.py --acl DIRECTORY --haul DIRECTORY [--owner UID] [--template users.acl] [--redis HOST[:PORT]]

Writes ACL/users.acl, HAUL/ROLE/redis for each role, and HAUL/web/users. Passwords that exist already are kept, and the
rights of the roles are taken from the template each time. The page's password is printed once and kept nowhere. Only
Python is needed.
"""

import argparse
import hashlib
import os
import pathlib
import re
import secrets


def write(path, text, mode, owner):
    """Writes the file in one step: a service that starts meanwhile sees the whole file, or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
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
    key = hashlib.scrypt(password.encode(), salt=salt, n=1 << 17, r=8, p=1, maxmem=1 << 28, dklen=32)
    return f"scrypt$17$8$1${salt.hex()}${key.hex()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--acl", type=pathlib.Path, required=True)
    parser.add_argument("--haul", type=pathlib.Path, required=True)
    parser.add_argument("--owner", type=int)
    parser.add_argument("--template", type=pathlib.Path, default=pathlib.Path("/users.acl"))
    parser.add_argument("--redis", default="redis:6379")
    given = parser.parse_args()

    def password(match):
        """A line of the template with the role's password, which may be older."""
        role = match.group(1)
        file = given.haul / role / "redis"
        known = re.match(r"redis://\w+:([^@]+)@", file.read_text()) if file.exists() else None
        secret = known.group(1) if known else secrets.token_urlsafe(24)
        if not known:
            write(file, f"redis://{role}:{secret}@{given.redis}\n", 0o400, given.owner)
        return f"user {role} on >{secret}"

    acl = re.sub(r"^user (\w+) on #0{64}", password, given.template.read_text(), flags=re.M)
    # Only Redis mounts this directory, and has another user.
    write(given.acl / "users.acl", acl, 0o444, None)
    if not (given.haul / "web" / "users").exists():
        secret = secrets.token_urlsafe(18)
        write(given.haul / "web" / "users", f"admin operator {scrypt(secret)}\n", 0o400, given.owner)
        print(f"The page: user admin, password {secret} (it is shown only now)")


main()
