//! Tests that the README's table is the one that the records give.

use std::fs;
use std::path::{Path, PathBuf};

use crate::run;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn readme(args: &[&str]) -> (i32, String) {
    run(&root(), &[&["readme"], args].concat())
}

#[test]
fn the_table_is_that_of_the_records() {
    let text = fs::read_to_string(root().join("README.md")).expect("a README");
    let machines = text.split("<!-- firstmatch-lab readme ").skip(1);
    let machines: Vec<&str> = machines.map(|rest| rest.split_once(" -->").expect("it names the machine").0).collect();
    let mut tables = machines.iter().map(|machine| {
        let (code, table) = readme(&[machine]);
        assert_eq!(code, 0, "{table}");
        assert!(text.contains(table.trim_end()), "run `firstmatch-lab readme {machine} --write README.md`: {table}");
        assert!(table.contains("| `meta`, ns a prepared key |"), "{table}");
        table
    });
    let (machine, table) = (machines[0], tables.next().expect("there is a table"));
    assert!(tables.all(|other| other != table), "a table stands there twice");

    // A file with another table gets this one, and keeps the rest.
    let (before, after) = text.split_once(table.trim_end()).expect("it is there");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("README.md");
    let other = format!("{before}<!-- firstmatch-lab readme x -->\n| 1 |\n<!-- end of the table -->{after}");
    fs::write(&path, other).expect("a file");
    let (code, out) = readme(&[machine, "--write", &path.to_string_lossy()]);
    assert_eq!((code, out), (0, table));
    assert_eq!(fs::read_to_string(&path).expect("the file").trim_end(), text.trim_end());
}

/// Frame records of two sets give means over both and least leads; a missing record a dash.
#[test]
fn figures_from_frames_have_rows_of_their_own() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("frames-record");
    fs::create_dir_all(folder.join("cpu")).expect("a folder");
    let mut text =
        "# cpu; 2026-01-01\n# firstmatch-lab measure frames-1k\nset,rules,keys,engine,measure,batch,threads,unit,\
                    median,min,lower_quartile,upper_quartile,max,wall_median,noise_floor,drift,void,of_limit,\
                    of_rte_acl,of_linear\n"
            .to_owned();
    for (set, engine, median) in [
        ("one", "meta", 20),
        ("one", "rte_acl avx2", 40),
        ("one", "rte_acl avx512x16", 10),
        ("two", "meta", 80),
        ("two", "rte_acl avx2", 90),
        ("two", "rte_acl avx512x16", 120),
    ] {
        text += &format!("{set},9,9,{engine},frame to decision,32,1,ns/frame,{median},1,1,1,1,1,0.01,,false,,,\n");
    }
    fs::write(folder.join("cpu/2026-01-01-frames-1k.csv"), text).expect("a file");
    let (code, out) = readme(&["cpu", "--record", &folder.to_string_lossy()]);
    assert_eq!(code, 0, "{out}");
    for expected in [
        "| `meta`, ns from a frame to a decision | 40.0 (80.0 on `two`) | – | – |\n",
        "| `rte_acl` up to AVX2, ns from a frame to a decision | 60.0 (× 1.12 on `two`) | – | – |\n",
        "| `rte_acl` with AVX-512, ns from a frame to a decision | 30.0 (× 0.50 on `one`) | – | – |\n",
        "cpu: [frames-1k](benchmarks/record/cpu/2026-01-01-frames-1k.csv) (2026-01-01)",
    ] {
        assert!(out.contains(expected), "{expected}: {out}");
    }
    assert!(!out.contains("a prepared key"), "a row that no record fills is left out: {out}");
}

/// Rules on groups have a row with a column by size; a size without a set has a dash, and the others no column.
#[test]
fn policies_have_a_row_by_size() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("policies-record");
    fs::create_dir_all(folder.join("cpu")).expect("a folder");
    let mut text =
        "# cpu; 2026-01-01\n# firstmatch-lab measure policies\nset,rules,keys,engine,measure,batch,threads,unit,\
                    median,min,lower_quartile,upper_quartile,max,wall_median,noise_floor,drift,void,of_limit,\
                    of_rte_acl,of_linear\n"
            .to_owned();
    for (set, nanos) in [("policy1_1k", 20), ("policy2_1k", 80), ("policy1_3k", 500), ("policy1_10k", 90)] {
        for (engine, factor) in [("meta", 1), ("bit_select", 9)] {
            let figures = [("lookup,32,1,ns", factor * nanos), ("lookup,1,1,ns", 7 * nanos), ("run,,1,bytes", 600)];
            for (measure, median) in figures {
                text += &format!("{set},100,9,{engine},{measure},{median},1,1,1,1,1,0.01,,false,,,\n");
            }
        }
    }
    fs::write(folder.join("cpu/2026-01-01-policies.csv"), text).expect("a file");
    let (code, out) = readme(&["cpu", "--record", &folder.to_string_lossy()]);
    assert_eq!(code, 0, "{out}");
    for expected in [
        "| `meta`, rules on groups: ns a prepared key, bytes a rule | 40.0 (80.0 on `policy2_1k`), 6.00 | \
         90.0 (90.0 on `policy1_10k`), 6.00 | – |\n",
        "cpu: [policies](benchmarks/record/cpu/2026-01-01-policies.csv) (2026-01-01)",
    ] {
        assert!(out.contains(expected), "{expected}: {out}");
    }
}

#[test]
fn what_is_not_there_is_named() {
    let (code, out) = readme(&["no-such-cpu"]);
    assert!(code == 2 && out.contains("there is no record of `no-such-cpu`; expected one of amd-"), "{code}: {out}");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("without-table.md");
    fs::write(&path, "nothing\n").expect("a file");
    let (code, out) = readme(&["amd-epyc-family-25-model-unknown", "--write", &path.to_string_lossy()]);
    assert!(code == 2 && out.contains("without-table.md: expected `<!-- firstmatch-lab readme"), "{code}: {out}");
}
