//! Threads that read and parse blocks. Each job is one block: reading the blocks of a log is exclusive, parsing them is
//! not. So one log is parsed by all threads, and several compressed logs are decompressed at once.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;

use super::LogError;
use super::chunk::LogChunk;
use super::formats::LineFormat;
use super::input::{BlockReader, LineBlock};
use super::parse::{FieldChoice, parse_block};

/// A log that is being read.
pub(super) struct LogInput {
    pub(super) name: String,
    pub(super) reader: Mutex<BlockReader>,
    pub(super) format: LineFormat,
    pub(super) choice: FieldChoice,
}

/// A parsed block.
pub(super) struct ParsedBlock {
    /// The index of the log.
    pub(super) log: usize,
    /// The number of the block in the log.
    pub(super) number: u64,
    pub(super) chunk: Result<LogChunk, LogError>,
}

struct Job {
    log: usize,
    input: Arc<LogInput>,
    recycled: LogChunk,
}

/// Threads that read and parse blocks.
pub(super) struct ParserPool {
    jobs: Sender<Job>,
    parsed: Receiver<ParsedBlock>,
}

impl ParserPool {
    /// Starts threads. They end when the pool is dropped.
    pub(super) fn start<'scope>(scope: &'scope Scope<'scope, '_>, threads: usize) -> ParserPool {
        let (jobs, queue) = channel();
        let (results, parsed) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..threads {
            let (queue, results) = (Arc::clone(&queue), results.clone());
            scope.spawn(move || work(&queue, &results));
        }
        ParserPool { jobs, parsed }
    }

    /// Requests the next block of a log. `recycled` is a chunk that is no longer needed, for its memory.
    pub(super) fn request(&self, log: usize, input: &Arc<LogInput>, recycled: LogChunk) {
        // Without threads there is no answer, and `receive` returns the error.
        let _ = self.jobs.send(Job { log, input: Arc::clone(input), recycled });
    }

    /// Returns the next parsed block of any log. Blocks of one log may arrive in another order than they were read.
    pub(super) fn receive(&self) -> Option<ParsedBlock> {
        self.parsed.recv().ok()
    }
}

fn work(queue: &Mutex<Receiver<Job>>, results: &Sender<ParsedBlock>) {
    while let Ok(job) = { locked(queue).recv() } {
        let mut answer = Answer { log: job.log, input: &job.input, parsed: None, results };
        answer.parsed = Some(read_and_parse(&job.input, job.recycled));
    }
}

fn read_and_parse(input: &LogInput, mut recycled: LogChunk) -> (u64, Result<LogChunk, LogError>) {
    let bytes = std::mem::take(&mut recycled.text).into_bytes();
    let (number, block) = {
        let mut reader = locked(&input.reader);
        (reader.next_number(), reader.next_block(bytes))
    };
    let chunk = block.map(|LineBlock { bytes, text_bytes, stored_bytes, is_last }| {
        let mut chunk = parse_block(bytes, &input.format, &input.choice, recycled);
        (chunk.counts.text_bytes, chunk.counts.stored_bytes) = (text_bytes, stored_bytes);
        chunk.is_last = is_last;
        chunk
    });
    (number, chunk)
}

/// Sends the answer to a job, also if the thread panics: the caller would wait for it forever.
struct Answer<'a> {
    log: usize,
    input: &'a LogInput,
    parsed: Option<(u64, Result<LogChunk, LogError>)>,
    results: &'a Sender<ParsedBlock>,
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        let stopped = || (u64::MAX, Err(LogError::Stopped { file: self.input.name.clone() }));
        let (number, chunk) = self.parsed.take().unwrap_or_else(stopped);
        // The caller may have stopped because of another error.
        let _ = self.results.send(ParsedBlock { log: self.log, number, chunk });
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
