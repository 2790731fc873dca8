//! Passwords that change while the store runs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_redis::{Password, RedisOptions, RegionSettings, RegionalMemoryStore, StoreEvent};
use tollgate_store::{MemoryOptions, MemoryStore, OnFailure, RealClock, Store};
use tollgate_testbed::{RedisServer, RedisSetup, TemporaryDirectory};

use crate::support::{
    connect_recording, default_settings, log_without_expiry, options, standalone_options, until, until_exact,
};

/// A server with a password, and a file with that password.
struct Secured {
    server: RedisServer,
    file: PathBuf,
    _directory: TemporaryDirectory,
}

impl Secured {
    fn start() -> Secured {
        let server = RedisServer::start_with(RedisSetup { password: Some("first"), ..RedisSetup::default() }).unwrap();
        let directory = TemporaryDirectory::new("rotated-password").unwrap();
        let file = directory.path().join("password");
        std::fs::write(&file, "first\n").unwrap();
        Secured { server, file, _directory: directory }
    }

    fn options(&self) -> RedisOptions {
        let password = Password::from_file(&self.file).unwrap();
        RedisOptions { password: Some(password), ..standalone_options(self.server.address()) }
    }

    /// Changes the password on the server and in the file, closes all connections, and waits for another.
    async fn rotate(&mut self) {
        self.server.command(&["CONFIG", "SET", "requirepass", "second"]).unwrap();
        self.server.use_password(Some("second"));
        std::fs::write(&self.file, "second\n").unwrap();
        self.reconnect().await;
    }

    /// Closes all connections, and waits until a client has connected again.
    async fn reconnect(&self) {
        let before = self.newest_connection();
        self.server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
        self.server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
        until("a client is connected again", || self.newest_connection() > before).await;
    }

    /// Returns the largest ID of a client's connection. A client names it after it has authenticated.
    fn newest_connection(&self) -> u64 {
        let list = self.server.command(&["CLIENT", "LIST"]).unwrap();
        let named = list.text().unwrap().lines().filter(|line| line.contains(" name=tollgate "));
        let id = |line: &str| line.strip_prefix("id=")?.split(' ').next()?.parse::<u64>().ok();
        named.filter_map(id).max().unwrap_or(0)
    }
}

fn is_about_file(event: &StoreEvent, path: &Path) -> bool {
    let name = path.display().to_string();
    match event {
        StoreEvent::PasswordUnreadable { file, .. } | StoreEvent::PasswordReadable { file } => *file == name,
        _ => false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rotated_password_file_is_read_for_the_next_connection() {
    let mut secured = Secured::start();
    let (store, events) = connect_recording(&secured.options(), default_settings()).await;
    let limit = store.limit("rotated", log_without_expiry(100), options(OnFailure::Closed)).unwrap();
    secured.rotate().await;
    until_exact(&store, &limit, "alice").await;

    // Without the file, connections use the last password. It is reported once for all of them.
    let about_file = || -> Vec<StoreEvent> {
        events.lock().unwrap().iter().filter(|event| is_about_file(event, &secured.file)).cloned().collect()
    };
    assert_eq!(about_file(), []);
    std::fs::remove_file(&secured.file).unwrap();
    for _ in 0..2 {
        secured.reconnect().await;
        until_exact(&store, &limit, "alice").await;
    }
    assert!(matches!(&about_file()[..], [StoreEvent::PasswordUnreadable { .. }]), "{:?}", about_file());
    std::fs::write(&secured.file, "second").unwrap();
    secured.reconnect().await;
    until("the file is read again", || about_file().len() == 2).await;
    assert!(matches!(about_file()[1], StoreEvent::PasswordReadable { .. }), "{:?}", about_file());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rotated_password_of_the_global_server_of_regions_is_read_again() {
    let mut secured = Secured::start();
    let memory = MemoryStore::with(MemoryOptions::default(), RealClock::new()).unwrap();
    let regions = RegionSettings {
        region: "eu".to_owned(),
        weights: vec![("eu".to_owned(), 50), ("us".to_owned(), 50)],
        epoch: Duration::from_secs(1),
        prefix: "tollgate:".to_owned(),
        global: secured.options(),
    };
    let store = RegionalMemoryStore::connect(memory, MemoryOptions::default(), regions, 7, |_| {}).unwrap();
    until("the region is synchronised", || store.region_status().synced_before.is_some()).await;
    secured.rotate().await;
    let rotated = Instant::now();
    let is_synced_since = || store.region_status().synced_before.is_some_and(|ago| ago < rotated.elapsed());
    until("the region is synchronised again", is_synced_since).await;
}
