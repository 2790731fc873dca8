/// A starter policy, as a commented file: 60 requests a minute for each address, and examples of other rules. It denies
/// no client.
pub const STARTER: &str = include_str!("starter.yaml");

#[cfg(test)]
mod tests {
    use super::STARTER;
    use crate::{Loaded, parse};

    fn read(text: &str) -> Loaded {
        parse(text, "starter.yaml", None).unwrap_or_else(|report| panic!("{report}"))
    }

    #[test]
    fn starter_has_no_warnings() {
        let Loaded { policy, warnings, .. } = read(STARTER);
        assert_eq!(warnings, []);
        let rules: Vec<&str> = policy.rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(rules, ["per-ip"]);
        assert!(policy.deny.is_empty() && policy.allow.is_empty());
    }

    #[test]
    fn starter_states_how_many_requests_its_bucket_admits() {
        let promise = crate::promise::promises(&read(STARTER).policy)[0].to_string();
        assert!(promise.contains("at most 120 requests in any minute"), "{promise}");
        let words: Vec<&str> = STARTER.split_whitespace().filter(|word| *word != "##").collect();
        let expected =
            "so up to 120 can pass in one minute. For at most 60 in any minute, add `algorithm: sliding-window-log`";
        assert!(words.join(" ").contains(expected), "{expected}");
    }

    /// The examples must be valid when they are uncommented.
    #[test]
    fn uncommented_examples_have_no_warnings() {
        let is_prose = |line: &&str| line.trim_start().starts_with("## ") || line.trim() == "##";
        let uncommented: Vec<String> =
            STARTER.lines().filter(|line| !is_prose(line)).map(|line| line.replacen("# ", "", 1)).collect();
        let Loaded { policy, warnings, notes, .. } = read(&uncommented.join("\n"));
        // Every policy with `concurrency` has this note.
        let codes: Vec<&str> = notes.iter().map(|note| note.code).collect();
        assert_eq!((warnings, codes), (Vec::new(), vec!["concurrency-elsewhere"]));
        let rules: Vec<&str> = policy.rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(rules, ["per-ip", "per-user", "login", "payments", "reports", "next-limit"]);
    }
}
