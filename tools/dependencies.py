"""Write docs/reference/dependencies.md and the software bill of materials, from what is installed here.

    python tools/dependencies.py

Everything that the base install and the extras bring at run time is listed with its licence, directly asked for or
not, and so are the shared libraries inside its wheels. The licence is the one that a distribution's metadata states;
where that is unclear, its licence file is read. A licence that cannot be told, or one that would bind whoever ships
expunge to the GPL, ends the run. The bill (CycloneDX 1.6) is a record of one resolution: this one.
"""

from __future__ import annotations

import json
import platform
import re
import tomllib
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "dependencies.md"
BILL = ROOT / "docs" / "reference" / "sbom.cdx.json"
# Extras for those who work on expunge, not for those who run it.
TOOLING = ("dev", "docs")
UNKNOWN = "LicenseRef-unknown"
# Longer than any short licence, shorter than the first page of the long ones.
OWN = 2000

# What metadata says in words, as SPDX identifiers. "BSD" alone is not here: it needs the file.
WORDS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "ISC License": "ISC",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
# Shared libraries that wheels carry, by the beginning of their names; their licences are those of their own sources.
LIBRARIES = {
    "Xau": "MIT-open-group",
    "avif": "BSD-2-Clause",
    "brotli": "MIT",
    "com_err": "MIT",
    "crypt-": "LGPL-2.1-or-later",
    "crypto": "Apache-2.0",
    "flint": "LGPL-3.0-or-later",
    "freetype": "FTL OR GPL-2.0-or-later",
    "gfortran": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "gmp": "LGPL-3.0-or-later OR GPL-2.0-or-later",
    "gomp": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "gssapi_krb5": "MIT",
    "harfbuzz": "MIT-Modern-Variant",
    "jemalloc": "BSD-2-Clause",
    "jpeg": "IJG AND BSD-3-Clause",
    "k5crypto": "MIT",
    "keyutils": "LGPL-2.1-or-later",
    "krb5": "MIT",
    "lber": "OLDAP-2.8",
    "lcms2": "MIT",
    "ldap": "OLDAP-2.8",
    "lzma": "0BSD",
    "mpfr": "LGPL-3.0-or-later",
    "openjp2": "BSD-2-Clause",
    "pcre": "BSD-3-Clause",
    "png16": "libpng-2.0",
    "pq": "PostgreSQL",
    "quadmath": "LGPL-2.1-or-later",
    "sasl2": "BSD-Attribution-HPND-disclaimer",
    "scipy_openblas": "BSD-3-Clause",
    "selinux": "libselinux-1.0",
    "sharpyuv": "BSD-3-Clause",
    "ssl": "Apache-2.0",
    "tiff": "libtiff",
    "webp": "BSD-3-Clause",
    "xcb": "X11",
    "zstd": "BSD-3-Clause OR GPL-2.0-only",
}


@dataclass
class Component:
    """One distribution of the closure: who brings it, and what it needs itself."""

    distribution: Distribution
    licence: str
    installs: set[str] = field(default_factory=set)
    needs: set[str] = field(default_factory=set)


def wanted() -> dict[str, list[Requirement]]:
    """What pyproject.toml asks for at run time: under "" the base install, then each extra, with our own resolved."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]

    def resolved(lines: Iterable[str]) -> Iterator[Requirement]:
        for line in lines:
            requirement = Requirement(line)
            if canonicalize_name(requirement.name) == project["name"]:
                for extra in sorted(requirement.extras):
                    yield from resolved(extras[extra])
            else:
                yield requirement

    asked = {"": list(resolved(project["dependencies"]))}
    asked |= {name: list(resolved(lines)) for name, lines in sorted(extras.items()) if name not in TOOLING}
    return asked


def closure(asked: Mapping[str, Iterable[Requirement]]) -> dict[str, Component]:
    """Every distribution that the installs bring on this machine, by canonical name."""
    found: dict[str, Component] = {}
    for install, requirements in asked.items():
        waiting = list(requirements)
        seen: set[tuple[str, frozenset[str]]] = set()
        while waiting:
            requirement = waiting.pop()
            name = canonicalize_name(requirement.name)
            if (name, frozenset(requirement.extras)) in seen:
                continue
            seen.add((name, frozenset(requirement.extras)))
            if name not in found:
                installed = distribution(name)
                found[name] = Component(installed, licence(installed))
            component = found[name]
            component.installs.add(install)
            below = list(applicable(component.distribution, requirement.extras))
            component.needs |= {canonicalize_name(each.name) for each in below}
            waiting += below
    return dict(sorted(found.items()))


def applicable(installed: Distribution, extras: Iterable[str]) -> Iterator[Requirement]:
    """The requirements of a distribution that hold on this machine, for some of its extras."""
    for line in installed.requires or []:
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement


def licence(installed: Distribution) -> str:
    """The SPDX expression of a distribution: stated, else in known words, else told from its licence file."""
    about = installed.metadata
    for stated in about.get_all("License-Expression") or []:
        return str(stated)
    said = "".join(about.get_all("License") or []).strip()
    if said in WORDS:
        return WORDS[said]
    if re.fullmatch(r"(0BSD|MIT|ISC|[A-Z]+-\d[\w.-]*|\(|\)| AND | OR )+", said):
        return said
    texts = [path.read_text(errors="replace") for path in licence_files(installed)]
    read = {told for text in texts if (told := told_from(text))}
    if len(read) == 1:
        return read.pop()
    classified = [
        str(line).split(" :: ")[-1] for line in about.get_all("Classifier") or [] if "License ::" in str(line)
    ]
    known = sorted({WORDS[words] for words in classified if words in WORDS})
    return " OR ".join(known) if known and len(known) == len(classified) else UNKNOWN


def licence_files(installed: Distribution) -> Iterator[Path]:
    """The licence files at the top of a distribution's metadata; those below it are of what its wheel carries."""
    for file in installed.files or []:
        folders = [part for part in file.parts[:-1] if part != "licenses"]
        if len(folders) == 1 and folders[0].endswith(".dist-info") and re.match("LICEN[CS]E|COPYING", file.name, re.I):
            yield Path(str(file.locate()))


def told_from(text: str) -> str | None:
    """Which licence a text is, by its own sentences; the licences of what a wheel carries may follow its own."""
    words = " ".join(text[:OWN].split())
    if "GNU" in words and "GENERAL PUBLIC LICENSE" in words.upper():
        return None
    if "Apache License" in words and "Version 2.0" in words:
        return "Apache-2.0"
    if "Redistribution and use in source and binary forms" in words:
        return (
            "BSD-3-Clause"
            if re.search(r"[Nn]either the name|names? of .{0,80} (may|be used)", words)
            else "BSD-2-Clause"
        )
    if "Permission is hereby granted, free of charge" in words:
        return "MIT"
    return None


def binding(expression: str) -> bool:
    """Whether an SPDX expression leaves no way around the GPL or AGPL.

    Of alternatives (OR) one that is free of it is enough; of parts (AND) each must be. The exception for the runtime
    libraries of GCC frees what is linked to them, and the LGPL does so for what can be linked anew: both are allowed.
    """
    tokens = re.findall(r"\(|\)|[\w.+-]+", expression)

    def alternatives() -> bool:
        bound = parts()
        while tokens[:1] == ["OR"]:
            tokens.pop(0)
            other = parts()
            bound = bound and other
        return bound

    def parts() -> bool:
        bound = one()
        while tokens[:1] == ["AND"]:
            tokens.pop(0)
            other = one()
            bound = bound or other
        return bound

    def one() -> bool:
        name = tokens.pop(0)
        if name == "(":
            bound = alternatives()
            tokens.pop(0)
            return bound
        if tokens[:1] == ["WITH"]:
            exception = tokens[1]
            del tokens[:2]
            return re.match("A?GPL", name) is not None and not exception.startswith("GCC-exception")
        return re.match("A?GPL", name) is not None

    return alternatives()


def carried(installed: Distribution) -> dict[str, str]:
    """The shared libraries of others inside a distribution's wheel, each with its licence."""
    found = {}
    own = canonicalize_name(installed.name).replace("-", "_")
    for file in installed.files or []:
        name = re.match(r"lib(.+?)\.so", file.name)
        # One in the package's own folder, rather than in NAME.libs, is its own unless it is known to be another's.
        if name:
            known = [LIBRARIES[stem] for stem in LIBRARIES if name.group(1).lower().startswith(stem.lower())]
            if known or file.parts[0] == f"{own}.libs":
                found[f"lib{name.group(1).split('-')[0]}"] = known[0] if known else UNKNOWN
    return dict(sorted(found.items()))


def titled(install: str) -> str:
    """An install as a command line names it."""
    return f"expunge[{install}]" if install else "expunge"


def page(asked: Mapping[str, list[Requirement]], found: Mapping[str, Component]) -> str:
    """The page: what each install asks for, what that brings, and what is inside its wheels."""
    direct = {canonicalize_name(each.name) for requirements in asked.values() for each in requirements}
    lines = [
        "# Dependencies and licences",
        "",
        "What expunge asks for at run time, and under which licences. `python tools/dependencies.py` writes this page",
        "and [the bill of materials](sbom.cdx.json) (CycloneDX 1.6) from an installation; the bill records the",
        "versions, the Python and the day. A test checks that nothing here is under the GPL or AGPL.",
        "",
        "expunge itself is Apache-2.0; the samples in its wheel are under ODbL-1.0 (hours in intensive care) and MIT",
        "(conversations), with their licences beside them.",
        "",
        "## Asked for",
        "",
        "| install | dependency | range | licence |",
        "|---|---|---|---|",
    ]
    for install, requirements in asked.items():
        for each in requirements:
            name: str = canonicalize_name(each.name)
            extras = f"[{','.join(sorted(each.extras))}]" if each.extras else ""
            lines.append(f"| `{titled(install)}` | {name}{extras} | `{each.specifier}` | {found[name].licence} |")
    lines += [
        "",
        "## Under the LGPL",
        "",
        "Each is optional, used as it comes, loaded at run time and replaceable by another build:",
        "",
    ]
    for name, component in found.items():
        if "LGPL" in component.licence:
            where = ", ".join(f"`{titled(install)}`" for install in sorted(component.installs))
            lines.append(f"- {name}, {component.licence}, in {where}.")
    lines += [
        "",
        "Without them proofs are not made or verified in ball arithmetic, and stores are SQLite files.",
        "",
        "## Brought along",
        "",
        "What the above need in turn.",
        "",
        "| distribution | licence | in |",
        "|---|---|---|",
    ]
    for name, component in found.items():
        if name not in direct:
            where = "every install" if "" in component.installs else ", ".join(sorted(component.installs))
            lines.append(f"| {name} | {component.licence} | {where} |")
    lines += [
        "",
        "## Inside their wheels",
        "",
        "Wheels carry shared libraries of others. Those of GCC's run time are under the GPL with an exception that",
        "frees what is linked to them, or under the LGPL; they are files of their own and can be replaced. Of two",
        "licences the one that is not the GPL is taken.",
        "",
        "| distribution | library | licence |",
        "|---|---|---|",
    ]
    for name, component in found.items():
        by_licence: dict[str, list[str]] = {}
        for library, terms in carried(component.distribution).items():
            by_licence.setdefault(terms, []).append(library)
        lines += [f"| {name} | {', '.join(libraries)} | {terms} |" for terms, libraries in sorted(by_licence.items())]
    lines += [
        "",
        "## Not seen here",
        "",
        "The page is written on Linux, with the CPU build of PyTorch. The build for CUDA brings Triton (MIT) and",
        "NVIDIA's libraries, which are proprietary and come under NVIDIA's own terms; they are asked for by PyTorch,",
        "not by expunge. On Windows a few packages are added for the terminal and for time zones. What the extras",
        "`dev` and `docs` bring is used to build and test expunge and is not part of what is shipped.",
    ]
    return "\n".join(lines) + "\n"


def bill(found: Mapping[str, Component], when: datetime) -> dict[str, Any]:
    """The bill of materials of one resolution, as CycloneDX 1.6."""
    ours = distribution("expunge")
    own = f"pkg:pypi/expunge@{ours.version}"

    def reference(name: str) -> str:
        # A local label, as in 2.13.0+cpu, is part of the version.
        return f"pkg:pypi/{name}@{found[name].distribution.version.replace('+', '%2B')}"

    components = [
        {
            "type": "library",
            "bom-ref": reference(name),
            "name": name,
            "version": component.distribution.version,
            "scope": "required" if "" in component.installs else "optional",
            "licenses": [{"expression": component.licence}],
            "purl": reference(name),
            "properties": [
                {"name": "expunge:installs", "value": " ".join(titled(each) for each in sorted(component.installs))},
                *(
                    {"name": "expunge:carries", "value": f"{library}: {terms}"}
                    for library, terms in carried(component.distribution).items()
                ),
            ],
        }
        for name, component in found.items()
    ]
    direct = {canonicalize_name(each.name) for requirements in wanted().values() for each in requirements}
    dependencies = [{"ref": own, "dependsOn": sorted(map(reference, direct))}]
    dependencies += [
        {"ref": reference(name), "dependsOn": sorted(map(reference, component.needs))}
        for name, component in found.items()
    ]
    content = json.dumps([components, dependencies], sort_keys=True)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # The same resolution has the same number.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}",
        "version": 1,
        "metadata": {
            "timestamp": when.isoformat(timespec="seconds"),
            "component": {
                "type": "library",
                "bom-ref": own,
                "name": "expunge",
                "version": ours.version,
                "licenses": [{"expression": licence(ours)}],
                "purl": own,
            },
            "properties": [
                {"name": "expunge:python", "value": platform.python_version()},
                {"name": "expunge:platform", "value": f"{platform.system()} {platform.machine()}"},
            ],
        },
        "components": components,
        "dependencies": dependencies,
    }


def problems(found: Mapping[str, Component]) -> list[str]:
    """Every licence that is not told or would bind, of a distribution or of a library inside it."""
    listed = [(name, component.licence) for name, component in found.items()]
    for name, component in found.items():
        listed += [(f"{library} in {name}", terms) for library, terms in carried(component.distribution).items()]
    return [f"{name}: {terms}" for name, terms in listed if terms == UNKNOWN or binding(terms)]


def main() -> None:
    """Write both files, or say what is wrong."""
    asked = wanted()
    found = closure(asked)
    wrong = problems(found)
    if wrong:
        raise SystemExit("these licences are unclear or not allowed:\n" + "\n".join(wrong))
    PAGE.write_text(page(asked, found), encoding="utf-8")
    BILL.write_text(json.dumps(bill(found, datetime.now(UTC)), indent=1) + "\n", encoding="utf-8")
    print(f"wrote {PAGE.name} and {BILL.name}: {len(found)} distributions, none under the GPL or AGPL")


if __name__ == "__main__":
    main()
