"""``expunge key``: the keys that may sign a store's receipts and heads, listed, added, replaced and revoked."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expunge.cli.command_definition import command, group
from expunge.cli.context import CommandContext, print_json_lines
from expunge.errors import InputError

if TYPE_CHECKING:
    from expunge.ledger.event import KeyUse
    from expunge.store import StoreKey

__all__ = ["register"]


class Use(Enum):
    """What a key is for."""

    RECEIPTS = "receipts"
    HEADS = "heads"
    BOTH = "both"

    @property
    def uses(self) -> tuple[KeyUse, ...]:
        """One or two uses."""
        return ("receipts", "heads") if self is Use.BOTH else ("receipts",) if self is Use.RECEIPTS else ("heads",)


class Reason(Enum):
    """Why a key is revoked."""

    ROTATED = "rotated"
    LOST = "lost"
    COMPROMISED = "compromised"


UseOption = Annotated[Use, typer.Option("--use", help="What the key signs.")]


def register(app: typer.Typer) -> None:
    """Register the commands."""
    keys = group(
        "key",
        summary="List, add, replace or revoke the store's keys.",
        examples=[
            "expunge key list",
            "expunge key add spare.pub",
            "expunge key rotate new.pem",
            "expunge key revoke SHA256:bbXpuKG6zhzd... --reason lost \\\n--signing-key spare.pem",
        ],
    )
    command(keys, "list", examples=["expunge key list", "expunge key list --json"])(list_keys)
    command(keys, "add", examples=["expunge key add spare.pub", "expunge key add head.pub --use heads"])(add)
    command(
        keys,
        "rotate",
        examples=["expunge key rotate new.pem", "expunge key rotate 'hsm:2?label=ward' --use heads"],
    )(rotate)
    command(
        keys,
        "revoke",
        examples=["expunge key revoke SHA256:bbXpuKG6zhzd... --reason lost \\\n--signing-key spare.pem"],
    )(revoke)
    app.add_typer(keys, rich_help_panel="Keep")


def list_keys(context: CommandContext) -> None:
    """List the public keys of the store: what each one signs, and whether it still does.

    The key id is the fingerprint that verifiers compare over another channel.
    """
    with context.store() as store:
        keys = store.signing_keys()
    if context.as_json:
        print_json_lines([_content(known) for known in keys])
        return
    from expunge.cli.output import listing

    context.out.print(
        listing(
            ("use", "algorithm", "state", "key id"),
            [
                (known.use, known.key.algorithm.value, "revoked" if known.revoked else "valid", known.key.key_id)
                for known in keys
            ],
        )
    )


def add(
    context: CommandContext,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A public key (PEM), as keygen writes it.")],
    use: UseOption = Use.BOTH,
) -> None:
    """Let a further key sign: a spare one, whose private half lies somewhere safe.

    A store whose only key is lost cannot continue its ledger. With a spare key in the ledger it can, and the spare key
    can revoke the one that was lost or stolen.
    """
    from expunge.ledger.signing import load_verifying_key

    key = load_verifying_key(file)
    with context.store() as store:
        leaves = [store.add_key(key, purpose).index for purpose in use.uses]
    context.show(
        {"key_id": key.key_id, "use": use.value, "leaves": leaves},
        f"{key.key_id} may sign {' and '.join(use.uses)} from leaf {leaves[-1] + 1} on",
    )


def rotate(
    context: CommandContext,
    new: Annotated[str, typer.Argument(metavar="KEY", help="The new private key: PEM file or URI.")],
    use: UseOption = Use.BOTH,
) -> None:
    """Sign with a new key from now on, and let the old one sign no more.

    The old key signs that the new one is added, and the new one that the old one is revoked. Receipts under the old key
    stay valid. Open the store with the new key afterwards, and give its public key to whoever verifies.
    """
    from expunge.store.identity import open_key

    signer = open_key(new, context.passphrase)
    with context.store() as store:
        old = {"receipts": store.public_key, "heads": store.head_key}
        if any(old[purpose] == signer.public for purpose in use.uses):
            raise InputError(f"the store is open with {signer.public.key_id} already; name a new key")
        if use is not Use.BOTH and old["receipts"] == old["heads"] and context.head_key is None:
            raise InputError("one key signs receipts and heads of this store: rotate both, or name --head-key as well")
        known = {(one.use, one.key) for one in store.signing_keys() if not one.revoked}
        for purpose in use.uses:
            if (purpose, signer.public) not in known:
                store.add_key(signer.public, purpose)
    changed = replace(
        context,
        signing_key=new if use is not Use.HEADS else context.signing_key,
        head_key=new if use is Use.HEADS else None if use is Use.BOTH else context.head_key,
    )
    with changed.store() as store:
        leaves = [store.revoke_key(old[purpose], purpose, "rotated").index for purpose in use.uses]
        verifier = store.log_key.to_text()
    context.show(
        {"key_id": signer.public.key_id, "use": use.value, "leaves": leaves, "verifier_key": verifier},
        f"new key   {signer.public.key_id}  (signs {' and '.join(use.uses)} from leaf {leaves[0]} on)",
        f"verifier  {verifier}",
    )
    context.note("Open the store with the new key from now on: --signing-key, $EXPUNGE_SIGNING_KEY.")


def revoke(
    context: CommandContext,
    key_id: Annotated[str, typer.Argument(metavar="KEY", help="As expunge key list shows it.")],
    reason: Annotated[Reason, typer.Option("--reason", help="Why.", show_default=False)],
    use: UseOption = Use.BOTH,
) -> None:
    """Let a key sign no more. The store is opened with another valid key, which signs that.

    What the key signed before stays valid in the ledger. If it was compromised, trust what came before the last head
    that a witness cosigned, or that was time-stamped, before the theft.
    """
    with context.store() as store:
        found = [known for known in store.signing_keys() if known.key.key_id == key_id and known.use in use.uses]
        if not found:
            raise InputError(f"{key_id[:80]} is no key of this store for {use.value} (expunge key list)")
        leaves = [store.revoke_key(known.key, known.use, reason.value).index for known in found if not known.revoked]
    context.show(
        {"key_id": key_id, "leaves": leaves, "reason": reason.value},
        f"{key_id} signs no more" if leaves else f"{key_id} was revoked before",
    )


def _content(known: StoreKey) -> dict[str, object]:
    return {
        "use": known.use,
        "algorithm": known.key.algorithm.value,
        "revoked": known.revoked,
        "key_id": known.key.key_id,
        "public_pem": known.key.to_pem().decode(),
    }
