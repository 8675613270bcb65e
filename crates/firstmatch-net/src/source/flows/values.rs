//! Values of a row, from the cells of its columns.

use super::super::cells::Cell;
use super::super::lines::Fault;
use super::columns::FlowField;
use super::row::{self, FlowWeight, RowValues};
use super::{FlowFormat, RowKind};

/// Reads the parts of a flow, each from the cell that `get` returns for the index of its column.
#[inline]
pub(super) fn read<'c>(
    format: FlowFormat,
    wanted: &[(FlowField, usize)],
    get: impl Fn(usize) -> Option<Cell<'c>>,
    row: &mut RowValues,
) -> Result<RowKind, Fault> {
    *row = RowValues::default();
    let mut back = [None; 2];
    for &(field, index) in wanted {
        let Some(cell) = get(index) else { continue };
        match field {
            FlowField::Status => match status(format, &cell)? {
                RowKind::Row => {}
                other => return Ok(other),
            },
            FlowField::Src => row.src = row::address(&cell)?,
            FlowField::Dst => {
                row.dst = row::address(&cell)?;
                check_families(&cell, row)?;
            }
            FlowField::SrcPort => row.ports[0] = row::port(&cell)?,
            FlowField::DstPort if format == FlowFormat::Nfdump => row.ports[1] = row::nfdump_port(&cell)?,
            FlowField::DstPort => row.ports[1] = row::port(&cell)?,
            FlowField::Proto => row.proto = row.proto.or(row::protocol(&cell)?),
            FlowField::IcmpType => row.icmp[0] = row::byte(&cell)?,
            FlowField::IcmpCode => row.icmp[1] = row::byte(&cell)?,
            FlowField::TcpFlags => row.tcp_flags[0] = row.tcp_flags[0].or(flags(format, &cell, row)?),
            FlowField::TcpFlagsBack => row.tcp_flags[1] = row::answering_flags(&cell)?,
            FlowField::Packets => row.there.packets = row::count(&cell)?.unwrap_or(0),
            FlowField::Bytes => row.there.bytes = row::count(&cell)?.unwrap_or(0),
            FlowField::PacketsBack => back[0] = row::count(&cell)?,
            FlowField::BytesBack => back[1] = row::count(&cell)?,
        }
    }
    row.set_back(back);
    Ok(RowKind::Row)
}

/// Checks that the addresses of a row belong to one family; `cell` has the second.
#[inline]
pub(super) fn check_families(cell: &Cell<'_>, row: &RowValues) -> Result<(), Fault> {
    match (row.src, row.dst) {
        (Some(src), Some(dst)) if src.family() != dst.family() => {
            let message = "the two addresses belong to different families".to_owned();
            Err(cell.fault(message, "two of IPv4 or two of IPv6"))
        }
        _ => Ok(()),
    }
}

/// Returns the TCP flags of the first packet; those of the first one back are set where the same cell has them.
fn flags(format: FlowFormat, cell: &Cell<'_>, row: &mut RowValues) -> Result<Option<u8>, Fault> {
    match format {
        FlowFormat::Nfdump => row::nfdump_flags(cell),
        FlowFormat::Suricata => row::opening_flags(cell),
        FlowFormat::Zeek => {
            let [there, back] = row::zeek_history(cell)?;
            row.tcp_flags[1] = back;
            Ok(there)
        }
        _ => row::aws_flags(cell),
    }
}

/// Returns whether a row has a flow, by the cell that says so.
#[inline]
fn status(format: FlowFormat, cell: &Cell<'_>) -> Result<RowKind, Fault> {
    match (format, cell.bytes) {
        (FlowFormat::Aws, b"OK" | b"-") => Ok(RowKind::Row),
        (FlowFormat::Aws, b"NODATA" | b"SKIPDATA") => Ok(RowKind::NoTraffic),
        (FlowFormat::Aws, other) => {
            let message = format!("{} is no log status", String::from_utf8_lossy(other));
            Err(cell.fault(message, "OK, NODATA or SKIPDATA"))
        }
        // The event of Suricata, the log of Zeek: a stream may have several, and only one is of flows.
        (FlowFormat::Suricata, b"flow") => Ok(RowKind::Row),
        (FlowFormat::Zeek, path) if path.starts_with(b"conn") => Ok(RowKind::Row),
        _ => Ok(RowKind::None),
    }
}

/// Values of a tuple of Azure: time, addresses, ports, protocol, direction, then by the version of the log.
///
/// | place | network security groups | virtual networks |
/// |---|---|---|
/// | 5 | `T` or `U` | number of the protocol |
/// | 7 | `A` or `D` | state: `B`, `C`, `E` or `D` |
/// | 8 | state in version 2: `B`, `C`, `E` or empty | encryption |
/// | 9 to 12 | packets and bytes there, packets and bytes back | the same |
pub(super) fn azure<'c>(
    count: usize,
    get: impl Fn(usize) -> Option<Cell<'c>>,
    tuple: &Cell<'c>,
    row: &mut RowValues,
) -> Result<RowKind, Fault> {
    *row = RowValues::default();
    if !matches!(count, 8 | 13) {
        return Err(tuple.fault(format!("this flow has {count} parts"), "8 or 13 with commas between"));
    }
    let cell = |index: usize| get(index).ok_or_else(|| tuple.fault("a flow without all parts".to_owned(), "13"));
    row.src = row::address(&cell(1)?)?;
    row.dst = row::address(&cell(2)?)?;
    check_families(&cell(2)?, row)?;
    row.ports = [row::port(&cell(3)?)?, row::port(&cell(4)?)?];
    row.proto = row::azure_protocol(&cell(5)?)?;
    let is_group = matches!(cell(5)?.bytes, b"T" | b"U");
    let state = if is_group && count == 13 { cell(8)? } else { cell(7)? };
    row.continues = match state.bytes {
        b"B" | b"D" => false,
        b"A" | b"" if is_group => false,
        b"C" | b"E" => true,
        other => {
            let message = format!("{} is no state of a flow", String::from_utf8_lossy(other));
            return Err(state.fault(message, "B, C, E or D"));
        }
    };
    // Each flow of TCP in these logs was opened, in this direction.
    row.tcp_flags[0] = Some(row::SYN);
    if count == 13 {
        let number = |index: usize| row::count(&cell(index)?);
        row.there = FlowWeight { flows: 0, packets: number(9)?.unwrap_or(0), bytes: number(10)?.unwrap_or(0) };
        row.set_back([number(11)?, number(12)?]);
    }
    Ok(RowKind::Row)
}
