use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::activity_stream::NotesBytes;

/// The idle timeout is checked in so many steps, so it fires at most a quarter too late.
const STEPS: u32 = 4;

/// The idle timeout of one connection. All clones are the same connection.
///
/// A count is all that is kept where bytes come: not even the time is asked
/// for, which would cost more than many a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdleTimer {
    seen: Arc<AtomicU64>,
}

impl IdleTimer {
    /// Waits until nothing came or went for so long.
    pub(crate) async fn wait(&self, so_long: Duration) {
        let (mut seen, mut quiet_steps) = (self.seen.load(Relaxed), 0);
        while quiet_steps < STEPS {
            tokio::time::sleep(so_long / STEPS).await;
            let now = self.seen.load(Relaxed);
            quiet_steps = if now == seen { quiet_steps + 1 } else { 0 };
            seen = now;
        }
    }

    /// Only the connection's own task writes, so it takes no more than to add.
    fn reset(&self) {
        self.seen.store(self.seen.load(Relaxed).wrapping_add(1), Relaxed);
    }
}

impl NotesBytes for IdleTimer {
    fn read(&self) {
        self.reset();
    }

    fn wrote(&self) {
        self.reset();
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::{Instant, advance, sleep, timeout};

    use super::*;
    use crate::listen::ActivityStream;

    const S: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_bytes_is_idle() {
        let begun = Instant::now();
        IdleTimer::default().wait(8 * S).await;
        assert!((8 * S..=10 * S).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_in_time_reset_the_idle_timer() {
        let idle = IdleTimer::default();
        let (mut client, server) = duplex(64);
        let mut server = ActivityStream::new(server, idle.clone());
        let talk = async {
            for _ in 0..20 {
                sleep(7 * S).await;
                client.write_all(b"x").await.unwrap();
                server.read_u8().await.unwrap();
            }
        };
        let ended = tokio::select! {
            () = idle.wait(8 * S) => false,
            () = talk => true,
        };
        assert!(ended);
        let begun = Instant::now();
        idle.wait(8 * S).await;
        assert!((8 * S..=10 * S).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_completed_write_resets_the_idle_timer() {
        let idle = IdleTimer::default();
        let (_client, server) = duplex(4);
        let mut server = ActivityStream::new(server, idle.clone());
        server.write_all(b"full").await.unwrap();
        assert_eq!(idle.seen.load(Relaxed), 1);
        advance(S).await;
        assert!(timeout(S, server.write_all(b"x")).await.is_err());
        assert_eq!(idle.seen.load(Relaxed), 1);
    }
}
