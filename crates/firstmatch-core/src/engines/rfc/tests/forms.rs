//! Forms of tables: the paper's bitmaps, corners of layouts, budgets, orders of classes.

use super::super::compact::SubTableShape;
use super::super::entries::Entries;
use super::super::runs::Runs;
use super::super::table::{Cells, Form, Spending, Writer, bytes_of};
use super::*;
use crate::error::BuildError;

/// Entries of the table of the paper's example.
const EXAMPLE: [u32; 18] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 3, 3];

/// Every shape of sub-tables that is tested, and ranked bitmaps.
fn compact_forms() -> Vec<Form> {
    let shape = |entries| [4, 8, 28].map(|elements| Form::SubTables(SubTableShape { entries, elements }));
    [32, 64, 96, 128].into_iter().flat_map(shape).chain([Form::Ranked]).collect()
}

/// Writes a table in rows of `length` entries; returns it with the bytes taken from the budget.
fn write(entries: &[u32], length: usize, form: Form, allowed: usize) -> Result<(Cells, usize), BuildError> {
    let mut spending = Spending { used: 0, allowed };
    let mut writer = Writer::new(entries.len(), form, &mut spending, 0, "table 1".to_owned(), usize::MAX, false)?;
    entries.chunks(length).try_for_each(|row| writer.row(row, 0))?;
    let (cells, count) = writer.finish()?;
    assert_eq!(count, entries.len());
    Ok((cells, spending.used))
}

/// Returns the words of the paper's sub-tables, and the words of the accessory table.
fn sub_tables(entries: &[u32]) -> (Vec<u32>, Vec<u32>, [u32; 2]) {
    let form = Form::SubTables(SubTableShape { entries: 32, elements: 8 });
    let (cells, _) = write(entries, 7, form, usize::MAX).expect("no budget");
    let Cells::SubTables(tables) = &cells else { panic!("another form") };
    let classes = [BitCount::Instruction, BitCount::FindFirst].map(|count| cells.get(20.min(entries.len() - 2), count));
    (tables.words.to_vec(), tables.unpacked(&tables.accessories), classes)
}

/// Bitmap and elements of the paper's table, and of its form for shifts.
#[test]
fn bitmaps_of_the_example_are_those_of_the_paper() {
    // Entry 16 is the entry of packet (010, 100, 100), which matches the third rule.
    assert_eq!(sub_tables(&EXAMPLE), (vec![0x11E01, 1 << 16, 2 << 16, 3 << 16, 0], vec![], [3; 2]));
    // Rows of six become rows of eight, so that the packet's entry is 20. Illegal entries repeat the entry before.
    let padded = |of: fn(u32) -> u32| -> Vec<u32> {
        EXAMPLE.chunks(6).flat_map(|row| [row, &[of(row[5]); 2]].concat()).collect()
    };
    assert_eq!(sub_tables(&padded(|last| last)), (vec![0x11_3801, 1 << 16, 2 << 16, 3 << 16, 0], vec![], [3; 2]));
    // If illegal entries are a class of their own, there are ten runs. Four are outside, and the packet's is the third.
    let apart = (vec![0x51_7941, 4 << 16, 1 << 16, 2 << 16, 0], vec![4, 0, 3, 4], [3; 2]);
    assert_eq!(sub_tables(&padded(|_| 4)), apart);
}

/// The engine of the paper has these sub-tables, by multiplication and by shifts, and names them.
#[test]
fn the_example_is_built_in_sub_tables() {
    let path = |config: &Config| Engine::structure(&Rfc::build(&of_example(), config).expect("no budget"));
    let text = path(&Config::paper_bitmap()).expect("it has one");
    // Entries are rules from 1; the paper's classes 0, 1, 2, 3 are rules 4, 1, 2, 3.
    assert!(text.ends_with("\n  sub-table 0: bitmap 0x11e01, elements 4 1 4 2 4 3\n"), "{text}");
    let text = path(&Config { index: PlaceBy::Shift, ..Config::paper_bitmap() }).expect("it has one");
    // The second slot has four classes with its illegal one, and the third slot has two.
    assert!(text.contains("4 4 4 4 4 4 4 4 4 4 4 1 4 2 4 2 4 4 4 4 3 3 3 3\n"), "{text}");
    let refused = |sub_entries, sub_elements| {
        Rfc::build(&of_example(), &Config { sub_entries, sub_elements, ..Config::paper_bitmap() }).is_err()
    };
    assert!(!refused(96, 28) && refused(48, 8) && refused(32, 2) && refused(32, 5) && refused(32, 30));
}

/// Eight runs stay inside. Of nine, the last three are outside, and elements 6 and 7 are their address.
#[test]
fn sub_tables_of_eight_and_nine_runs() {
    // Two sub-tables: the runs of the second have the numbers 50 and on, and it lacks its last entry.
    let of = |first: u32, second: u32| -> Vec<u32> {
        let run = |at: u32, runs: u32| (at % 32).min(runs - 1);
        (0..63).map(|at| if at < 32 { run(at, first) } else { 50 + run(at, second) }).collect()
    };
    let elements = |from: u32, count: u32| -> Vec<u32> {
        (0..count / 2).map(|at| (from + 2 * at) | ((from + 2 * at + 1) << 16)).collect()
    };
    let words = |bitmap: u32, from: u32, inside: u32, address: Option<u32>| -> Vec<u32> {
        [&[bitmap][..], &elements(from, inside), address.as_slice()].concat()
    };
    let (tables, outside, _) = sub_tables(&of(8, 9));
    assert_eq!(tables, [words(0xFF, 0, 8, None), words(0x1FF, 50, 6, Some(0))].concat());
    // The number of words is rounded up.
    assert_eq!(outside, [56, 57, 58, 0]);
    let (tables, outside, _) = sub_tables(&of(32, 9));
    assert_eq!(tables, [words(u32::MAX, 0, 6, Some(0)), words(0x1FF, 50, 6, Some(26))].concat());
    assert_eq!(outside, (6..32).chain(56..59).chain([0]).collect::<Vec<_>>());
}

/// Every compact form has the entries that were written, whatever the lengths of runs, on both sides of 16 bits.
#[test]
fn compact_forms_have_the_entries_that_were_written() {
    for most in [5, 65_535, 65_536] {
        for length in [1, 31, 32, 33, 63, 64, 65, 96, 129, 300] {
            // With runs of 4 a sub-table of 32 entries has eight, which are inside. With runs of 3 it spills.
            for run in [1, 2, 3, 4, 7, 31, 63, 64, 65, 400] {
                let entries: Vec<u32> = (0..length).map(|at| (at + 1) / run % 7 * (most / 5) % (most + 1)).collect();
                for form in compact_forms() {
                    let (mut cells, taken) = write(&entries, 5, form, usize::MAX).expect("no budget");
                    assert_eq!(cells.bytes() + cells.accessory_bytes(), taken, "{form:?}");
                    let read = |cells: &Cells, count| -> Vec<u32> {
                        (0..entries.len()).map(|at| cells.get(at, count)).collect()
                    };
                    for count in [BitCount::Instruction, BitCount::FindFirst] {
                        assert_eq!(read(&cells, count), entries, "{form:?}, runs of {run}, up to {most}");
                    }
                    let beyond = entries.len().next_multiple_of(128);
                    assert_eq!(cells.get(beyond, BitCount::Instruction), 0, "{form:?}");
                    let error = write(&entries, 5, form, taken - 1).expect_err("a byte is missing");
                    assert_eq!(error.bytes_needed(), Some((taken, taken - 1)), "{form:?}");
                    let most = entries.iter().copied().max().unwrap_or(0);
                    cells.relabel(&(0..=most).rev().collect::<Vec<_>>());
                    let want: Vec<u32> = entries.iter().map(|&entry| most - entry).collect();
                    assert_eq!(read(&cells, BitCount::Instruction), want, "{form:?}, runs of {run}, other numbers");
                }
            }
        }
    }
}

/// Bits and bases of ranked bitmaps: a block without a bit, one before which no run began, and a run at its end.
#[test]
fn ranked_bitmaps_count_runs_across_blocks() {
    let entries: Vec<u32> = (0..200).map(|at| if at < 63 { 4 } else { 9 + u32::from(at >= 192) }).collect();
    let (cells, bytes) = write(&entries, 100, Form::Ranked, usize::MAX).expect("no budget");
    let Cells::Ranked(ranked) = &cells else { panic!("another form") };
    let blocks: Vec<_> = ranked.blocks.iter().map(|block| (block.bits(), block.before)).collect();
    assert_eq!(blocks, [(1 | 1 << 63, u32::MAX), (0, 1), (0, 1), (1, 1)]);
    assert_eq!((bytes, cells.bits_set()), (4 * 12 + 3 * 2, vec![2, 0, 0, 1]));
}

/// Each of these plausible faults in a form would give another entry somewhere.
#[test]
fn wrong_readings_of_sub_tables_give_other_entries() {
    let entries: Vec<u32> = (0..64).map(|at| if at < 32 { at / 3 } else { 10 + (at - 32) / 16 }).collect();
    let form = Form::SubTables(SubTableShape { entries: 32, elements: 8 });
    let (cells, _) = write(&entries, 64, form, usize::MAX).expect("no budget");
    let Cells::SubTables(tables) = &cells else { panic!("another form") };
    let units = tables.unpacked(&tables.words);
    let outside = tables.unpacked(&tables.accessories);
    // Reads an entry from units of 16 bits. `rule` says whether a run is outside, by its place and the number of runs.
    let read = |at: usize, skips: u32, first: u32, rule: fn(usize, u32) -> bool| {
        let units = &units[at / 32 * 10..][..10];
        let bits = (units[0] | units[1] << 16) & !first;
        let upto = (bits << (31 - at % 32)).count_ones() - skips;
        let run = (upto as usize).checked_sub(1)?;
        let address = (units[8] | units[9] << 16) as usize;
        let element = if rule(run, bits.count_ones()) { outside.get(address + run - 6) } else { units.get(2 + run) };
        element.copied()
    };
    let all = |skips: u32, first: u32, rule: fn(usize, u32) -> bool| -> Vec<Option<u32>> {
        (0..64).map(|at| read(at, skips, first, rule)).collect()
    };
    let want: Vec<Option<u32>> = entries.iter().copied().map(Some).collect();
    let right = |run: usize, all: u32| all > 8 && run >= 6;
    assert_eq!(all(0, 0, right), want);
    // Figure 4 as printed: places 6 and 7 of a sub-table that spills are halves of the address.
    assert_ne!(all(0, 0, |run, all| all > 8 && run >= 8), want);
    assert_ne!(all(1, 0, right), want, "counted without the entry's own bit");
    assert_ne!(all(0, 1, right), want, "bit 0 is not set");
}

/// Entries up to 65,535 have 16 bits, and larger ones 32 bits, which count against the budget.
#[test]
fn entries_become_long_where_one_needs_it() {
    // Plans count by the largest entry.
    assert_eq!([bytes_of(3, 65_535), bytes_of(3, 65_536)], [6, 12]);
    for (most, bytes) in [(65_535, 8), (65_536, 16)] {
        let entries = [7, 65_535, most, 1];
        let (cells, _) = write(&entries, 2, Form::Plain, bytes).expect("it fits");
        assert_eq!((matches!(cells, Cells::Plain(Entries::Long(_))), cells.bytes()), (bytes == 16, bytes));
        assert_eq!([0, 1, 2, 3, 4].map(|at| cells.get(at, BitCount::Instruction)), [7, 65_535, most, 1, 0]);
        let error = write(&entries, 2, Form::Plain, bytes - 1).expect_err("too little");
        assert_eq!(error.bytes_needed(), Some((bytes, bytes - 1)));
    }
}

/// Runs are read back from any place on, and stay within their bytes.
#[test]
fn runs_are_read_from_any_place() {
    let entries: Vec<u32> = (0..500).map(|at: u32| at * at / 900).collect();
    let mut runs = Runs::default();
    entries.chunks(37).try_for_each(|row| runs.row(row, usize::MAX)).expect("no limit");
    for from in 0..entries.len() {
        for length in [0, 1, 2, 63, 64, 65, 200] {
            let length = length.min(entries.len() - from);
            let mut row = vec![0; length];
            runs.read(from, &mut row);
            assert_eq!(row, entries[from..from + length]);
        }
    }
    let mut few = Runs::default();
    let filled = entries.iter().take_while(|&&entry| few.row(&[entry], 400).is_ok()).count();
    assert!(few.bytes() <= 400 && filled > 100 && few.count() == filled, "{filled} entries in {} bytes", few.bytes());
}

/// The order of fewest runs takes at most 64 bytes more than the order as found, and for most sets fewer bytes.
#[test]
fn the_order_of_fewest_runs_is_the_smallest() {
    let mut smaller = 0;
    for rules in [5, 20, 40, 60] {
        let bytes = |order, store| {
            let engine =
                Rfc::build(&of_ports(rules), &Config { order, store, ..Config::default() }).expect("no budget");
            Engine::stats(&engine).total_bytes()
        };
        let [found, fewest] =
            [ClassOrder::AsFound, ClassOrder::FewestRuns].map(|order| bytes(order, TableForm::Ranked));
        assert!(fewest <= found + 64, "{fewest} bytes instead of {found} for {rules} rules");
        smaller += usize::from(fewest < found);
    }
    assert!(smaller > 2, "the order matters");
}
