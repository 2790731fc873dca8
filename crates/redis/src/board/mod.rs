//! The board that all instances share: limits that an operator has set for a
//! time, and tidings of keys that were reset, so that nobody goes on refusing
//! from memory.
//!
//! It is one key on the servers. Every instance reads it several times a
//! second, and at once when it hears on a channel that it has changed. An
//! instance that could not read it for a second believes no refusal that is
//! older than that, so a second is the longest that a reset can go unnoticed.

mod wording;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};
use tollgate_store::{Board, ChangeError, Notice};

use self::wording::{News, Request, Said, read_change, read_news};
use crate::carrier::Carrier;
use crate::resp_value::Value;
use crate::store::SharedStore;
use crate::transport::Trouble;

pub(crate) use wording::ResetKey;

/// The script's text.
pub(crate) const SOURCE: &str = include_str!("board.lua");

/// How often the board is read by somebody who hears nothing. Two attempts fit
/// into the second for which a refusal is believed without it.
const READ_EVERY: Duration = Duration::from_millis(400);
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the key of the board is called. No scope begins like this.
const NAME: &str = "\\.board";

/// One instance's view of the board.
pub(crate) struct SharedBoard {
    reader: Arc<Reader>,
    listening: [JoinHandle<()>; 2],
}

struct Reader {
    store: SharedStore<Carrier>,
    /// What is known of it here.
    board: Board,
    /// The epoch that is known. Whoever holds it reads.
    known: Mutex<Option<u64>>,
    changed: Arc<Notify>,
    name: Arc<[u8]>,
}

impl SharedBoard {
    /// Begins to read. It must be called within a runtime.
    pub(crate) fn start(store: SharedStore<Carrier>) -> SharedBoard {
        let name: Arc<[u8]> = format!("{}{NAME}", store.prefix()).into_bytes().into();
        let changed = Arc::new(Notify::new());
        store.hears_of_resets();
        let subscription = store.transport().listen(&name, &changed);
        let reader = Arc::new(Reader { store, board: Board::default(), known: Mutex::new(None), changed, name });
        let reading = tokio::spawn(Arc::clone(&reader).run());
        SharedBoard { reader, listening: [subscription, reading] }
    }

    /// What is known of it here.
    pub(crate) fn known(&self) -> &Board {
        &self.reader.board
    }

    pub(crate) async fn post(&self, notice: &Notice) -> Result<(), ChangeError> {
        self.change(&Request::Post(notice)).await
    }

    pub(crate) async fn remove(&self, name: &str) -> Result<(), ChangeError> {
        self.change(&Request::Remove(name)).await
    }

    /// Tells all instances of keys that were reset.
    pub(crate) async fn tell(&self, keys: &[ResetKey]) -> Result<(), ChangeError> {
        self.change(&Request::Tell(keys)).await
    }

    async fn change(&self, request: &Request<'_>) -> Result<(), ChangeError> {
        let answer = self.reader.ask(request).await.ok_or(ChangeError::NoAnswer)?;
        match read_change(&answer) {
            Ok(true) => {
                // Whoever made a change sees it from then on.
                self.reader.read().await;
                Ok(())
            }
            Ok(false) => Err(ChangeError::TooMany),
            Err(_) => Err(ChangeError::NoAnswer),
        }
    }
}

impl Drop for SharedBoard {
    fn drop(&mut self) {
        self.listening.iter().for_each(JoinHandle::abort);
    }
}

impl Reader {
    async fn run(self: Arc<Self>) {
        loop {
            self.read().await;
            tokio::select! {
                () = sleep(READ_EVERY) => {}
                () = self.changed.notified() => {}
            }
        }
    }

    async fn read(&self) {
        let mut known = self.known.lock().await;
        let asked_at = Instant::now();
        let Some(answer) = self.ask(&Request::Read { known: *known }).await else { return };
        match read_news(&answer) {
            Ok(Said::Nothing) => {}
            Ok(Said::News(news)) => *known = Some(self.take_in(*known, news)),
            Err(_) => return,
        }
        // All that was told before the question was asked is known by now.
        self.store.heard_of_resets(asked_at);
    }

    fn take_in(&self, known: Option<u64>, news: News) -> u64 {
        let News { epoch, dropped, resets, notices } = news;
        let is_gap = known.is_none_or(|known| known < dropped || epoch < known);
        if is_gap {
            self.store.forget_refusals();
        }
        resets.iter().for_each(|reset| self.store.was_reset_elsewhere(reset));
        self.board.replace(notices);
        epoch
    }

    async fn ask(&self, request: &Request<'_>) -> Option<Value> {
        let deadline = Instant::now() + PATIENCE;
        let (heard, answer) = oneshot::channel();
        let hear = move |answer: Result<Value, Trouble>| {
            // Who does not wait any more does not want to know.
            let _ = heard.send(answer);
        };
        self.store.transport().ask_board(&self.name, request.arguments(), deadline, hear);
        timeout_at(deadline, answer).await.ok()?.ok()?.ok()
    }
}
