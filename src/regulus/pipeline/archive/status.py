"""What an archive holds of each broker, from its manifests alone."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, pairwise

from regulus.spark.archive.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    """`start` and `end` are bytes of the log; `gaps` counts the places between where ranges are missing."""

    broker_name: str
    start: int
    end: int
    gaps: int
    ranges: int
    files: int
    rows: int
    rejected: int
    size: int
    """Bytes of the Parquet files."""
    newest_ms: int
    """Store time of the newest message; 0 if there is none."""

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def broker_states(manifests: Sequence[Manifest]) -> list[BrokerState]:
    """One a broker; the manifests are those that count, in order."""
    return [_state(name, list(of_broker))
            for name, of_broker in groupby(manifests, key=lambda manifest: manifest.range.broker_name)]


def _state(broker_name: str, manifests: list[Manifest]) -> BrokerState:
    files = [file for manifest in manifests for file in manifest.files]
    return BrokerState(
        broker_name=broker_name, start=manifests[0].range.start, end=manifests[-1].range.end,
        gaps=sum(left.range.end != right.range.start for left, right in pairwise(manifests)), ranges=len(manifests),
        files=len(files), rows=sum(file.rows for file in files),
        rejected=sum(manifest.rejected for manifest in manifests), size=sum(file.size for file in files),
        newest_ms=max((facts.time_last for file in files for facts in file.queues.values()), default=0))
