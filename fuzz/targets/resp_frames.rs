//! For any input, the RESP parser returns the same commands wherever the input is split, stays within its limits and
//! makes progress. A parsed command that is encoded again parses to the same command.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tollgate_server::resp::{Parsed, Parser, RespError, RespLimits};

/// Small, so that every limit is reached.
const LIMITS: RespLimits = RespLimits {
    frame_bytes: 128,
    argument_bytes: 48,
    arguments: 6,
    inline_bytes: 64,
    key_bytes: 16,
    command_timeout: Duration::from_secs(1),
    reply_timeout: Duration::from_secs(1),
};

/// The commands in order, and how the input ended: by an error, or with the number of bytes of an incomplete command.
type Read = (Vec<Vec<Vec<u8>>>, Result<usize, RespError>);

fuzz_target!(|data: &[u8]| {
    let Some((&step, input)) = data.split_first() else { return };
    let whole = read(input, input.len().max(1));
    assert_eq!(read(input, 1), whole, "byte by byte");
    assert_eq!(read(input, usize::from(step).max(1)), whole, "in pieces of {step}");
    for command in &whole.0 {
        assert!((1..=LIMITS.arguments).contains(&command.len()));
        assert!(command.iter().map(Vec::len).sum::<usize>() <= LIMITS.frame_bytes);
        assert_round_trip(command);
    }
});

/// Reads the input like a connection, `step` bytes at a time.
fn read(input: &[u8], step: usize) -> Read {
    let mut parser = Parser::new(LIMITS);
    let (mut commands, mut start, mut end) = (Vec::new(), 0, 0);
    loop {
        let seen = &input[start..end];
        match parser.parse(seen) {
            Ok(Parsed::Part) if end == input.len() => return (commands, Ok(seen.len())),
            Ok(Parsed::Part) => {
                // The parser waits for more bytes only within its limits.
                assert!(seen.len() <= LIMITS.frame_bytes.max(LIMITS.inline_bytes));
                end = (end + step).min(input.len());
            }
            Ok(Parsed::Nothing(length)) => {
                assert!((1..=seen.len()).contains(&length));
                start += length;
            }
            Ok(Parsed::Command(length)) => {
                assert!((1..=seen.len()).contains(&length));
                let arguments = parser.arguments(seen);
                commands.push(arguments.from(0).map(<[u8]>::to_vec).collect());
                start += length;
            }
            Err(error) => return (commands, Err(error)),
        }
    }
}

fn assert_round_trip(command: &[Vec<u8>]) {
    let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
    for argument in command {
        bytes.extend(format!("${}\r\n", argument.len()).bytes());
        bytes.extend_from_slice(argument);
        bytes.extend(b"\r\n");
    }
    // An inline command may be longer when it is encoded as an array.
    if bytes.len() <= LIMITS.frame_bytes && command.iter().all(|argument| argument.len() <= LIMITS.argument_bytes) {
        assert_eq!(read(&bytes, bytes.len()), (vec![command.to_vec()], Ok(0)));
    }
}
