"""The report as a table that a person reads."""
from __future__ import annotations

from typing import Any


def _columns(rows: list[list[str]]) -> list[str]:
    """Left-aligned columns; the last one is not padded."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def _timeline_row(entry: dict[str, Any]) -> list[str]:
    level, reasons = "-", []
    for attempt in entry.get("attempts", []):
        if attempt.get("selected"):
            level = attempt["level"]
        elif attempt.get("reason"):
            reasons.append(f"{attempt['level']}: {attempt['reason']}")
    return [str(entry["part"]), str(entry.get("module")), str(entry.get("device")), level,
            ", ".join(reasons)]


def _parts(report: dict[str, Any]) -> list[str]:
    rows = [["part", "flow", "device", "steps", "memory"]]
    for part in report["parts"]:
        memory = (part.get("memory") or {}).get("peak_bytes")
        placed = ", ".join(part.get("device_placement") or {}) or str(part.get("backend"))
        rows.append([part["name"], str(part.get("flow")), placed, str(sum((part.get("device_placement") or {}).values())),
                     "-" if memory is None else f"{memory / 1e6:.1f} MB"])
    return _columns(rows)


def table(report: dict[str, Any]) -> str:
    """Parts, then the timeline with the reason of each level that was passed over."""
    lines = [f"ingot {report['version']}, device {report['requested_device'] or 'auto'}"]
    if not report["parts"]:
        return "\n".join([*lines, "nothing has run"])
    lines += ["", *_parts(report)]
    rows = [["part", "module", "device", "level", "why not another"]]
    rows += [_timeline_row(entry) for entry in report["backend_timeline"]]
    if len(rows) > 1:
        lines += ["", *_columns(rows)]
    for entry in report["fallbacks"]:
        lines += ["", f"fallback of {entry.get('op')}: {entry.get('from')} -> {entry.get('to')}, "
                      f"{entry.get('reason')}"]
    return "\n".join(lines)
