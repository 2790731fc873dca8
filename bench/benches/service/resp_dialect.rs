use crate::dialect::Dialect;

/// A Redis client that sends the same command repeatedly.
pub(crate) struct Resp {
    command: Vec<u8>,
    /// The digits of the command that are replaced by a random number below a bound.
    random: Option<Random>,
    /// The byte that each reply has exactly once.
    mark: u8,
    /// Whether the last reply is incomplete.
    is_cut: bool,
}

struct Random {
    digits: std::ops::Range<usize>,
    below: u64,
    state: u64,
}

impl Resp {
    pub(crate) fn new(arguments: &[&str], mark: u8) -> Resp {
        Resp { command: command(arguments), random: None, mark, is_cut: false }
    }

    /// `CL.THROTTLE` under a limit that refuses nothing.
    pub(crate) fn throttle(key: &str) -> Resp {
        Resp::new(&["CL.THROTTLE", key, "15", "1000000", "1"], b'*')
    }

    /// The same with a random key for each command, of this number of keys.
    pub(crate) fn throttle_any_of(keys: u64, seed: u64) -> Resp {
        const KEY: &str = "user:00000000";
        let mut resp = Resp::throttle(KEY);
        let start = resp.command.windows(KEY.len()).position(|bytes| bytes == KEY.as_bytes()).unwrap();
        let digits = start + "user:".len()..start + KEY.len();
        resp.random = Some(Random { digits, below: keys, state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 });
        resp
    }
}

impl Dialect for Resp {
    fn write_request(&mut self, out: &mut Vec<u8>) {
        if let Some(random) = &mut self.random {
            let mut number = random.next();
            for digit in self.command[random.digits.clone()].iter_mut().rev() {
                *digit = b'0' + u8::try_from(number % 10).unwrap();
                number /= 10;
            }
        }
        out.extend_from_slice(&self.command);
    }

    fn count_responses(&mut self, bytes: &[u8], _out: &mut Vec<u8>) -> usize {
        assert!(self.mark == b'*' || !bytes.contains(&b'-'), "{}", String::from_utf8_lossy(bytes));
        let begun = bytes.iter().filter(|byte| **byte == self.mark).count();
        // An incomplete reply is counted when its end arrives.
        let was_cut = std::mem::replace(&mut self.is_cut, !bytes.ends_with(b"\r\n"));
        begun + usize::from(was_cut) - usize::from(self.is_cut)
    }
}

impl Random {
    /// Returns a number below the bound (the upper half of xorshift).
    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        ((self.state >> 32) * self.below) >> 32
    }
}

fn command(arguments: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len());
    for argument in arguments {
        bytes += &format!("${}\r\n{argument}\r\n", argument.len());
    }
    bytes.into_bytes()
}
