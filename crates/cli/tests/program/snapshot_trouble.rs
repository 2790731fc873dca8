//! Snapshots that cannot be read or written.

use std::time::Instant;

use crate::reload::Directory;
use crate::running::{Running, output};
use crate::snapshot::{check, counters, kept, metric, serve};

/// What it says when it cannot start.
fn refused(file: &str) -> String {
    let refused = output(&["serve", "--http", ":0", "--admin", "off", "--grpc", "off", "--resp", "off", file]);
    assert_eq!(refused.status.code(), Some(3));
    String::from_utf8(refused.stderr).unwrap()
}

#[test]
fn a_damaged_snapshot_is_set_aside() {
    let directory = Directory::new("damaged");
    let file = directory.write("policy.yaml", &kept("limit: 5/day", "every: 5min"));
    let path = counters(&directory);
    let mut tollgate = serve(&file);
    assert_eq!(check(&tollgate)["remaining"], 4);
    tollgate.signal("TERM");
    assert_eq!(tollgate.exit_code(), Some(0));
    let whole = std::fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 16;
    let damages = [
        (flipped, "damaged", "it is damaged: "),
        (whole[..whole.len() - 1].to_vec(), "damaged-2", "it is damaged: it ends too early"),
        (b"something else".to_vec(), "damaged-3", "it is no snapshot of tollgate"),
        (Vec::new(), "damaged-4", "it is damaged: it ends too early"),
    ];
    for (bytes, ending, why) in damages {
        std::fs::write(&path, &bytes).unwrap();
        let mut tollgate = serve(&file);
        let said = tollgate.line();
        let shown = path.display();
        let expected = format!("tollgate: warning: every limit starts anew, because {shown} cannot be used: {why}");
        assert!(said.starts_with(&expected) && said.ends_with(&format!("; it is now {shown}.{ending}")), "{said}");
        assert_eq!(check(&tollgate)["remaining"], 4);
        assert_eq!(std::fs::read(directory.0.join(format!("counters.{ending}"))).unwrap(), bytes);
    }
}

#[test]
fn a_snapshot_of_a_later_version_is_left_alone() {
    let directory = Directory::new("later");
    let file = directory.write("policy.yaml", &kept("limit: 5/day", "every: 5min"));
    let path = counters(&directory);
    // `tollgate`, version 3, and the checksum of both.
    let later = b"tollgate\x03\0\0\0\xed\x3c\xcc\x99 and what nobody knows yet";
    std::fs::write(&path, later).unwrap();
    let said = refused(&file);
    let expected =
        format!("error: cannot serve {file}: the snapshot {} cannot be used: it is of version 3,", path.display());
    assert!(said.starts_with(&expected), "{said}");
    assert_eq!(std::fs::read(&path).unwrap(), later);
}

#[test]
fn two_processes_cannot_share_a_snapshot() {
    let directory = Directory::new("shared");
    let file = directory.write("policy.yaml", &kept("limit: 5/day", "every: 5min"));
    let tollgate = serve(&file);
    let said = refused(&file);
    let expected = format!("another process keeps its counters in {}: ", counters(&directory).display());
    assert!(said.contains(&expected), "{said}");
    // The first does not notice; and what a killed one leaves locks nobody out.
    assert_eq!(check(&tollgate)["remaining"], 4);
    drop(tollgate);
    assert_eq!(check(&serve(&file))["remaining"], 4);
}

#[test]
fn a_directory_that_cannot_be_written_is_named_at_the_start() {
    let directory = Directory::new("unwritable");
    let text = kept("limit: 5/day", "every: 5min").replace("counters", "absent/counters");
    let file = directory.write("policy.yaml", &text);
    let said = refused(&file);
    let shown = directory.0.join("absent/counters");
    let expected = format!("error: cannot serve {file}: the snapshot {} cannot be written: ", shown.display());
    assert!(said.starts_with(&expected), "{said}");
}

#[test]
fn a_disk_that_is_gone_is_told_and_counted_until_it_is_back() {
    let directory = Directory::new("gone");
    let text = kept("limit: 5/day", "every: 100ms").replace("counters", "disk/counters");
    let file = directory.write("policy.yaml", &text);
    let disk = directory.0.join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mut tollgate = serve(&file);
    let next = |tollgate: &mut Running| tollgate.line();
    assert!(next(&mut tollgate).ends_with(", which is new"));
    std::fs::rename(&disk, directory.0.join("elsewhere")).unwrap();
    let said = next(&mut tollgate);
    let expected = format!("tollgate: error: the snapshot {} was not written, ", disk.join("counters").display());
    assert!(said.starts_with(&expected), "{said}");
    let begun = Instant::now();
    while metric(&tollgate, "tollgate_snapshot_failures_total ") < 2 {
        assert!(begun.elapsed().as_secs() < 60, "it does not try again");
    }
    assert_eq!(check(&tollgate)["allowed"], true);
    std::fs::create_dir(&disk).unwrap();
    assert_eq!(
        next(&mut tollgate),
        format!("tollgate: the snapshot {} is written again", disk.join("counters").display())
    );
}

#[test]
fn a_last_snapshot_that_is_not_written_is_a_failure() {
    let directory = Directory::new("last");
    let text = kept("limit: 5/day", "every: 5min").replace("counters", "disk/counters");
    let file = directory.write("policy.yaml", &text);
    let disk = directory.0.join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mut tollgate = serve(&file);
    assert!(tollgate.line().ends_with(", which is new"));
    std::fs::rename(&disk, directory.0.join("elsewhere")).unwrap();
    tollgate.signal("TERM");
    assert_eq!(tollgate.line(), "tollgate: stopping: answering what is under way");
    let expected = format!("tollgate: error: the snapshot {} was not written, ", disk.join("counters").display());
    let said = tollgate.line();
    assert!(said.starts_with(&expected), "{said}");
    assert_eq!(tollgate.line(), "tollgate: stopped");
    assert_eq!(tollgate.exit_code(), Some(3));
}
