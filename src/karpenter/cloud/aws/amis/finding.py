# SPDX-License-Identifier: Apache-2.0
"""Which images a node class means: by alias through SSM, or by id, name, tags, owner or SSM parameter.

As Karpenter: terms are alternatives; ids and SSM parameters are asked for together; a name alone is looked for
among our own images and Amazon's only, so that nobody can plant a look-alike; only available images count,
deprecated ones too, and of architectures that nodes can have. Refused: an alias whose family does not serve the
cluster's version of Kubernetes, and a selection that finds nothing.

Differently from Karpenter, a parameter that cannot be read for another cause than not being there (throttled,
denied) ends the search with that error: half a selection would make nodes drift. Images found by id, tags or parameter
that belong to somebody else are used but told in a note.

Three things are remembered: the values of SSM parameters (5 minutes; of aliases a day, so that a new release does
not roll all clusters at once), what a class's selectors found (a minute), and which images are our own (a day).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from karpenter.api.base import EMPTY
from karpenter.api.ec2nodeclass import AMISelectorTerm, EC2NodeClass
from karpenter.cloud.aws import codes
from karpenter.cloud.aws.amis.families import Alias, alias_of
from karpenter.cloud.aws.amis.images import (
    ARCHITECTURES,
    Image,
    Images,
    Note,
    NoteKind,
    keep_best,
    read_image,
)
from karpenter.cloud.aws.api import Aws, AwsError
from karpenter.errors import KarpenterError
from karpenter.kit.cache import TTLCache
from karpenter.kit.clock import Clock
from karpenter.model.requirements import NO_REQUIREMENTS, Requirements

__all__ = ["NOT_FOUND", "UNSUPPORTED_ALIAS", "AmiSelectionError", "Amis"]

# Reasons of the condition AMIsReady.
NOT_FOUND: Final = "AMINotFound"
UNSUPPORTED_ALIAS: Final = "UnsupportedAlias"

_PARAMETER_S: Final = 5 * 60.0
_ALIAS_PARAMETER_S: Final = 24 * 60 * 60.0
_OWNERSHIP_S: Final = 24 * 60 * 60.0
# One filter of DescribeImages takes 200 values: as many parameters are remembered, so that one call checks them.
_MOST_PARAMETERS: Final = 200
_MOST_SELECTIONS: Final = 1000
_MOST_IMAGES: Final = 5000

_KUBERNETES: Final = re.compile(r"v?(\d+)\.(\d+)")
_DEFAULT_OWNERS: Final = ("self", "amazon")

_Filter: TypeAlias = tuple[str, tuple[str, ...]]


class AmiSelectionError(KarpenterError):
    """A node class whose selectors give no image.

    Attributes:
        node_class: The name of the class.
        reason: That of the condition AMIsReady.
        notes: What is known of images that were found and cannot be used.
        known_as: Karpenter's own sentence for it, if it has one and there is nothing more exact to say.
    """

    def __init__(
        self,
        node_class: str,
        problem: str,
        *,
        reason: str,
        hint: str = "",
        notes: tuple[Note, ...] = (),
        known_as: str = "",
    ) -> None:
        told = "".join(f"; {note}" for note in notes)
        super().__init__(
            f"EC2NodeClass {node_class}: spec.amiSelectorTerms: {problem}{told}",
            hint=hint or next((note.hint for note in notes), ""),
        )
        self.node_class = node_class
        self.reason = reason
        self.notes = notes
        self.known_as = "" if notes else known_as


@dataclass(frozen=True, slots=True)
class _Query:
    """One DescribeImages call and what is known beforehand about the images it may find."""

    filters: tuple[_Filter, ...]
    owners: tuple[str, ...] = ()
    # For an image id the kinds of instance type it is for, and the parameter that named it.
    serves: Mapping[str, tuple[Requirements, ...]] = field(default=EMPTY)
    parameters: Mapping[str, str] = field(default=EMPTY)
    # Whether nobody has said whose images are meant, so that a stranger's deserves a note.
    any_owner: bool = False


@dataclass(frozen=True, slots=True)
class _Parameter:
    value: str
    is_mutable: bool


class Amis:
    """Finds images, and remembers what it found."""

    def __init__(self, aws: Aws, clock: Clock, *, refresh_s: float = 60.0) -> None:
        """Make a finder.

        Args:
            aws: Where to look.
            clock: Where time comes from: deprecation and ages are judged by it.
            refresh_s: How long what a class's selectors found is believed.
        """
        self._aws = aws
        self._clock = clock
        self._parameters: TTLCache[str, _Parameter] = TTLCache(
            clock, ttl_s=_PARAMETER_S, max_size=_MOST_PARAMETERS
        )
        self._found: TTLCache[tuple[str, str, int, str], Images] = TTLCache(
            clock, ttl_s=refresh_s, max_size=_MOST_SELECTIONS
        )
        self._is_own: TTLCache[str, bool] = TTLCache(clock, ttl_s=_OWNERSHIP_S, max_size=_MOST_IMAGES)

    async def find(self, node_class: EC2NodeClass, kubernetes: str) -> Images:
        """Find the images of a node class for a version of Kubernetes such as "1.33".

        Raises:
            AmiSelectionError: There are none, or the alias does not serve this version.
            FamilyError: The alias names a family that does not exist.
            AwsError, AwsUnreachableError: AWS could not be asked.
        """
        meta = node_class.metadata
        key = (meta.uid, meta.name, meta.generation, kubernetes)
        remembered = self._found.get(key)
        if remembered is not None:
            return remembered
        notes: list[Note] = []
        alias = alias_of(node_class)
        if alias is None:
            queries = await self._term_queries(node_class.spec.ami_selector_terms, notes)
        else:
            queries = [await self._alias_query(alias, kubernetes, meta.name, notes)]
        images = keep_best([image for query in queries for image in await self._ask(query, notes)])
        if not images:
            raise AmiSelectionError(
                meta.name,
                "no image matches",
                reason=NOT_FOUND,
                notes=tuple(notes),
                hint=""
                if notes
                else "check ids, names, tags, owners and the region; images must be available",
                known_as="AMISelector did not match any AMIs",
            )
        found = Images(images, tuple(notes))
        self._found.set(key, found)
        return found

    def parameter_of(self, image_id: str) -> str:
        """Give the SSM parameter that named an image lately, for logs; nothing if none did."""
        return next((name for name, each in self._parameters.items() if each.value == image_id), "")

    async def drop_deprecated(self) -> tuple[str, ...]:
        """Forget each parameter of an alias whose image is deprecated or gone, and name those parameters.

        To be called every half hour: a bad release that AWS takes back is then left long before its day is over.
        """
        checked = {name: each.value for name, each in self._parameters.items() if each.is_mutable}
        if not checked:
            return ()
        query = _Query((("image-id", tuple(sorted(set(checked.values())))),))
        good = {image.id for image in await self._ask(query, []) if not image.deprecated}
        dropped = tuple(name for name, image_id in checked.items() if image_id not in good)
        for name in dropped:
            self._parameters.delete(name)
        if dropped:
            self._found.clear()
        return dropped

    async def _alias_query(self, alias: Alias, kubernetes: str, node_class: str, notes: list[Note]) -> _Query:
        version = _served_version(alias, kubernetes, node_class)
        serves: dict[str, tuple[Requirements, ...]] = {}
        parameters: dict[str, str] = {}
        for published in alias.family.images:
            name = published.parameter(version, alias.version)
            image_id = await self._parameter(
                name, notes, is_mutable=alias.is_mutable, ttl_s=_ALIAS_PARAMETER_S
            )
            if image_id:
                serves[image_id] = (*serves.get(image_id, ()), *published.serves)
                parameters[image_id] = name
        if not serves:
            raise AmiSelectionError(
                node_class,
                f"AWS publishes no image for alias {alias} and Kubernetes {version} in {self._aws.region}",
                reason=NOT_FOUND,
                hint="check the version after the @, or use @latest",
                notes=tuple(notes),
            )
        # Families are not published for every kind of hardware: that some are missing is usual.
        notes.clear()
        return _Query((("image-id", tuple(sorted(serves))),), serves=serves, parameters=parameters)

    async def _term_queries(self, terms: Sequence[AMISelectorTerm], notes: list[Note]) -> list[_Query]:
        queries = []
        ids: list[str] = []
        parameters: dict[str, str] = {}
        for term in terms:
            if term.id:
                ids.append(term.id)
            elif term.ssm_parameter:
                image_id = await self._parameter(term.ssm_parameter, notes, ttl_s=_PARAMETER_S)
                if image_id:
                    ids.append(image_id)
                    parameters[image_id] = term.ssm_parameter
            else:
                queries.append(_term_query(term))
        if ids:
            found_by_id = (("image-id", tuple(dict.fromkeys(ids))),)
            queries.append(_Query(found_by_id, parameters=parameters, any_owner=True))
        return queries

    async def _parameter(
        self, name: str, notes: list[Note], *, ttl_s: float, is_mutable: bool = False
    ) -> str:
        """Give the image id that a parameter holds, or nothing and a note."""
        remembered = self._parameters.get(name)
        if remembered is not None:
            return remembered.value
        try:
            answer = await self._aws.call("ssm", "GetParameter", Name=name)
        except AwsError as error:
            if not codes.is_not_found(error.code):
                raise
            notes.append(
                Note(
                    NoteKind.PARAMETER_NOT_FOUND,
                    name,
                    f"SSM parameter {name} does not exist in {self._aws.region}",
                    "check its name and region",
                )
            )
            return ""
        value: str = answer["Parameter"]["Value"]
        if not value.startswith("ami-"):
            notes.append(
                Note(
                    NoteKind.PARAMETER_NOT_AN_IMAGE,
                    name,
                    f'SSM parameter {name} holds "{value[:40]}", which is not the id of an image',
                    "store an id such as ami-0123456789abcdef0 in it",
                )
            )
            return ""
        self._parameters.set(name, _Parameter(value, is_mutable), ttl_s=ttl_s)
        return value

    async def _ask(self, query: _Query, notes: list[Note]) -> list[Image]:
        now = self._clock.now()
        images = []
        strangers: list[Mapping[str, Any]] = []
        for described in await self._describe(query.filters, query.owners):
            image_id, architecture = described["ImageId"], described.get("Architecture", "")
            if architecture not in ARCHITECTURES:
                notes.append(_wrong_architecture(image_id, architecture))
                continue
            if query.any_owner and described.get("ImageOwnerAlias") != "amazon":
                strangers.append(described)
            parameter = query.parameters.get(image_id, "")
            images += [
                read_image(described, serves, now, parameter)
                for serves in query.serves.get(image_id, (NO_REQUIREMENTS,))
            ]
        notes += await self._foreign(strangers)
        return images

    async def _foreign(self, described: Iterable[Mapping[str, Any]]) -> list[Note]:
        """Give a note for each of these images that is not our own."""
        owners = {image["ImageId"]: image.get("OwnerId", "") for image in described}
        unknown = tuple(image_id for image_id in owners if image_id not in self._is_own)
        if unknown:
            own = {each["ImageId"] for each in await self._describe((("image-id", unknown),), ("self",))}
            for image_id in unknown:
                self._is_own.set(image_id, image_id in own)
        return [
            _foreign(image_id, owner) for image_id, owner in owners.items() if not self._is_own.get(image_id)
        ]

    async def _describe(self, filters: Iterable[_Filter], owners: Sequence[str]) -> list[dict[str, Any]]:
        wanted: dict[str, Any] = {"Owners": list(owners)} if owners else {}
        pages = self._aws.pages(
            "ec2",
            "DescribeImages",
            Filters=[
                {"Name": name, "Values": list(values)}
                for name, values in (*filters, ("state", ("available",)))
            ],
            IncludeDeprecated=True,
            MaxResults=1000,
            **wanted,
        )
        return [image async for page in pages for image in page.get("Images", ())]


def _term_query(term: AMISelectorTerm) -> _Query:
    filters: list[_Filter] = [("name", (term.name,))] if term.name else []
    for key, value in sorted(term.tags.items()):
        filters.append(("tag-key", (key,)) if value == "*" else (f"tag:{key}", (value,)))
    owners = (term.owner,) if term.owner else _DEFAULT_OWNERS if term.name else ()
    return _Query(tuple(filters), owners, any_owner=not owners)


def _served_version(alias: Alias, kubernetes: str, node_class: str) -> str:
    """Give the version as it stands in parameter names, unless the alias' family does not serve it."""
    found = _KUBERNETES.match(kubernetes)
    if found is None:
        raise AmiSelectionError(
            node_class,
            f'"{kubernetes}" is not a version of Kubernetes, so alias {alias} cannot be looked up',
            reason=UNSUPPORTED_ALIAS,
            hint="a version looks like 1.33",
        )
    minor, family = int(found[2]), alias.family
    if family.kubernetes_before is not None and minor >= family.kubernetes_before:
        raise AmiSelectionError(
            node_class,
            f"alias {alias}: AWS makes no {family.name} images for Kubernetes 1.{family.kubernetes_before} and newer,"
            f" the cluster runs {kubernetes}",
            reason=UNSUPPORTED_ALIAS,
            hint="use al2023@latest or bottlerocket@latest",
        )
    if family.kubernetes_from is not None and minor < family.kubernetes_from:
        raise AmiSelectionError(
            node_class,
            f"alias {alias}: {family.name} needs Kubernetes 1.{family.kubernetes_from} or newer,"
            f" the cluster runs {kubernetes}",
            reason=UNSUPPORTED_ALIAS,
            hint="use windows2022@latest, or upgrade the cluster",
        )
    return f"{found[1]}.{found[2]}"


def _wrong_architecture(image_id: str, architecture: str) -> Note:
    return Note(
        NoteKind.UNSUPPORTED_ARCHITECTURE,
        image_id,
        f"image {image_id} is for {architecture or 'an unknown architecture'}, which no node can have",
        f"choose an image for {' or '.join(ARCHITECTURES)}",
    )


def _foreign(image_id: str, owner: str) -> Note:
    return Note(
        NoteKind.FOREIGN_OWNER,
        image_id,
        f"image {image_id} belongs to account {owner or 'unknown'}, neither to this account nor to Amazon",
        "make sure that you trust its owner; name them in the term's owner, or copy the image",
    )
