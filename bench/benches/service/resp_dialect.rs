use crate::dialect::Dialect;

/// Commands of Redis, the same again and again.
pub(crate) struct Resp {
    command: Vec<u8>,
    /// Digits of the command that are replaced by those of a number chosen at random below a bound.
    random: Option<Random>,
    /// What each answer has once.
    mark: u8,
    /// The last answer has not ended.
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

    /// `CL.THROTTLE` under a limit that refuses nobody.
    pub(crate) fn throttle(key: &str) -> Resp {
        Resp::new(&["CL.THROTTLE", key, "15", "1000000", "1"], b'*')
    }

    /// The same with a key chosen at random among so many, each command another.
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
    fn ask(&mut self, said: &mut Vec<u8>) {
        if let Some(random) = &mut self.random {
            let mut number = random.next();
            for digit in self.command[random.digits.clone()].iter_mut().rev() {
                *digit = b'0' + u8::try_from(number % 10).unwrap();
                number /= 10;
            }
        }
        said.extend_from_slice(&self.command);
    }

    fn hear(&mut self, bytes: &[u8], _said: &mut Vec<u8>) -> usize {
        assert!(self.mark == b'*' || !bytes.contains(&b'-'), "{}", String::from_utf8_lossy(bytes));
        let begun = bytes.iter().filter(|byte| **byte == self.mark).count();
        // One that is cut is counted when its end comes.
        let was_cut = std::mem::replace(&mut self.is_cut, !bytes.ends_with(b"\r\n"));
        begun + usize::from(was_cut) - usize::from(self.is_cut)
    }
}

impl Random {
    /// A number below the bound (xorshift, of which the upper half is used).
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
