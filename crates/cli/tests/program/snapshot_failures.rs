//! Snapshots that cannot be read or written.

use std::time::Instant;

use crate::reload::Directory;
use crate::running::{Running, output};
use crate::snapshot::{check, counters, metric, serve, with_snapshot};

/// The error of a service that does not start.
fn refused(file: &str) -> String {
    let refused = output(&["serve", "--http", ":0", "--admin", "off", "--grpc", "off", "--resp", "off", file]);
    assert_eq!(refused.status.code(), Some(3));
    String::from_utf8(refused.stderr).unwrap()
}

#[test]
fn damaged_snapshot_is_renamed_and_counters_start_from_zero() {
    let directory = Directory::new("damaged");
    let file = directory.write("policy.yaml", &with_snapshot("limit: 5/day", "every: 5min"));
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
        (b"something else".to_vec(), "damaged-3", "it is not a snapshot of tollgate"),
        (Vec::new(), "damaged-4", "it is damaged: it ends too early"),
    ];
    for (bytes, ending, why) in damages {
        std::fs::write(&path, &bytes).unwrap();
        let mut tollgate = serve(&file);
        let said = tollgate.line();
        let shown = path.display();
        let expected = format!("tollgate: warning: every limit starts anew, because {shown} cannot be used: {why}");
        assert!(
            said.starts_with(&expected) && said.ends_with(&format!("; it was renamed to {shown}.{ending}")),
            "{said}"
        );
        assert_eq!(check(&tollgate)["remaining"], 4);
        assert_eq!(std::fs::read(directory.0.join(format!("counters.{ending}"))).unwrap(), bytes);
    }
}

#[test]
fn snapshot_of_a_later_version_is_not_changed() {
    let directory = Directory::new("later");
    let file = directory.write("policy.yaml", &with_snapshot("limit: 5/day", "every: 5min"));
    let path = counters(&directory);
    // `tollgate`, version 3, and the checksum of both.
    let later = b"tollgate\x03\0\0\0\xed\x3c\xcc\x99 and unknown content";
    std::fs::write(&path, later).unwrap();
    let said = refused(&file);
    let expected =
        format!("error: cannot serve {file}: the snapshot {} cannot be used: it has version 3,", path.display());
    assert!(said.starts_with(&expected), "{said}");
    assert_eq!(std::fs::read(&path).unwrap(), later);
}

#[test]
fn second_process_with_the_same_snapshot_does_not_start() {
    let directory = Directory::new("shared");
    let file = directory.write("policy.yaml", &with_snapshot("limit: 5/day", "every: 5min"));
    let tollgate = serve(&file);
    let said = refused(&file);
    let expected = format!("another process uses the snapshot {}: ", counters(&directory).display());
    assert!(said.contains(&expected), "{said}");
    // The first is not affected, and the lock of a killed process is released.
    assert_eq!(check(&tollgate)["remaining"], 4);
    drop(tollgate);
    assert_eq!(check(&serve(&file))["remaining"], 4);
}

#[test]
fn unwritable_snapshot_directory_fails_at_startup() {
    let directory = Directory::new("unwritable");
    let text = with_snapshot("limit: 5/day", "every: 5min").replace("counters", "absent/counters");
    let file = directory.write("policy.yaml", &text);
    let said = refused(&file);
    let shown = directory.0.join("absent/counters");
    let expected = format!("error: cannot serve {file}: the snapshot {} cannot be written: ", shown.display());
    assert!(said.starts_with(&expected), "{said}");
}

#[test]
fn failed_snapshot_is_logged_and_counted_until_it_succeeds() {
    let directory = Directory::new("gone");
    let text = with_snapshot("limit: 5/day", "every: 100ms").replace("counters", "disk/counters");
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
        assert!(begun.elapsed().as_secs() < 60, "the write is not retried");
    }
    assert_eq!(check(&tollgate)["allowed"], true);
    std::fs::create_dir(&disk).unwrap();
    assert_eq!(
        next(&mut tollgate),
        format!("tollgate: the snapshot {} is written again", disk.join("counters").display())
    );
}

#[test]
fn failed_last_snapshot_exits_with_3() {
    let directory = Directory::new("last");
    let text = with_snapshot("limit: 5/day", "every: 5min").replace("counters", "disk/counters");
    let file = directory.write("policy.yaml", &text);
    let disk = directory.0.join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mut tollgate = serve(&file);
    assert!(tollgate.line().ends_with(", which is new"));
    std::fs::rename(&disk, directory.0.join("elsewhere")).unwrap();
    tollgate.signal("TERM");
    assert_eq!(tollgate.line(), "tollgate: stopping: answering requests in flight");
    let expected = format!("tollgate: error: the snapshot {} was not written, ", disk.join("counters").display());
    let said = tollgate.line();
    assert!(said.starts_with(&expected), "{said}");
    assert_eq!(tollgate.line(), "tollgate: stopped");
    assert_eq!(tollgate.exit_code(), Some(3));
}
