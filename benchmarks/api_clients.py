"""The description of the API before linters and a generator of TypeScript clients, from npm; and that client at work.

Redocly and Spectral, with their own recommended rules, must find nothing. `openapi-typescript` writes the types, a
small program that uses them with `openapi-fetch` must pass `tsc --strict`, and then it is run against the service: it
lists, admits, previews, erases, and reads a problem. The Python client is generated and used in the tests.

    make api-clients
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import expunge
from expunge.service.tokens import SCOPES, Tokens
from record import describe, write_result

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import httpx

from service.service_client import fill_store, running_service

RESULTS = Path(__file__).parent / "results" / "api_clients.json"
PACKAGES = ("@redocly/cli@2", "@stoplight/spectral-cli@6", "openapi-typescript@7", "openapi-fetch@0", "typescript@5")
PROGRAM = """
import createClient from "openapi-fetch";
import type { paths, components } from "./api.js";

type Entry = components["schemas"]["Entry"];
const client = createClient<paths>({
  baseUrl: process.argv[2],
  headers: { Authorization: `Bearer ${process.argv[3]}` },
});
const path = { name: "icu" };

const listed = await client.GET("/v1/memories/{name}/entries", { params: { path, query: { content: true } } });
const entries: Entry[] = listed.data!.items;
const key: number[] = entries[0].key!;
const arrival = { key: key.map((x) => x + 0.25), value: [1, 2], id: "new", subject: "somebody" };
const body = { ...arrival, on_expiry: "report" as const, derived_from: [] };
const admitted = await client.POST("/v1/memories/{name}/admit", { params: { path }, body });
const preview = await client.POST("/v1/memories/{name}/delete", {
  params: { path, query: { dry_run: true } }, body: { id: "new", derived: "erase" },
});
const erased = await client.POST("/v1/erasures", {
  params: { header: { prefer: "wait=30" } }, body: { subject: "somebody", derived: "erase" },
});
const wrong = await client.GET("/v1/memories/{name}", { params: { path: { name: "nobody" } } });
console.log(JSON.stringify({
  entries: entries.length,
  admitted: admitted.data!.outcome,
  dry_run: "dry_run" in preview.data!,
  state: "state" in erased.data! ? erased.data!.state : null,
  code: wrong.error!.code,
}));
"""
EXPECTED = {"entries": 40, "admitted": "admitted", "dry_run": True, "state": "done", "code": "not-found"}


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the folder's packages."""
    environment = os.environ | {"REDOCLY_TELEMETRY": "off", "NO_COLOR": "1"}
    command = ["npx", "--no-install", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)  # noqa: S603


def main() -> None:
    """Lint, generate, compile, run, record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/api-clients"), help="Where npm installs.")
    folder: Path = parser.parse_args().folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    (folder / ".spectral.yaml").write_text('extends: ["spectral:oas"]\n')
    (folder / "client.ts").write_text(PROGRAM)
    install = ["npm", "install", "--no-audit", "--no-fund", "--silent", *PACKAGES]
    subprocess.run(install, cwd=folder, check=True)  # noqa: S603
    steps: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory() as place:
        url = f"sqlite:///{place}/ward.db"
        fill_store(url)
        with expunge.open(url) as store:
            token, _ = Tokens(store).create(SCOPES)
        with running_service(url) as (_, address, _):
            found = httpx.get(f"{address}openapi.json", headers={"Authorization": f"Bearer {token}"})
            (folder / "openapi.json").write_bytes(found.content)
            commands = {
                "redocly": ("redocly", "lint", "openapi.json", "--max-problems", "20"),
                "spectral": ("spectral", "lint", "openapi.json", "--fail-severity", "hint"),
                "openapi-typescript": ("openapi-typescript", "openapi.json", "-o", "api.ts"),
                "tsc": (
                    *("tsc", "--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck"),
                    *("--moduleResolution", "nodenext", "--lib", "es2022,dom", "client.ts", "node.d.ts"),
                ),
                "client": ("node", "client.js", address.rstrip("/"), token),
            }
            (folder / "node.d.ts").write_text("declare const process: { argv: string[] };\n")
            for name, words in commands.items():
                done = run(folder, *words)
                steps[name] = {"exit": done.returncode}
                warned = name == "redocly" and "warning" in done.stderr.split("validating")[-1]
                if done.returncode or warned:
                    steps[name]["said"] = (done.stdout + done.stderr)[-3000:]
                if name == "client" and done.returncode == 0:
                    steps[name]["answers"] = json.loads(done.stdout)
    fine = all(step["exit"] == 0 and "said" not in step for step in steps.values())
    fine = fine and steps["client"].get("answers") == EXPECTED
    operations = sum(len(one) for one in found.json()["paths"].values())
    write_result(RESULTS, {"operations": operations, "steps": steps, "fine": fine, "machine": describe()})
    print(json.dumps(steps, indent=1))
    print(f"{operations} operations; {'all fine' if fine else 'NOT fine'}")
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
