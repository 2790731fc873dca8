/// The policy to begin with, as a commented file: 60 requests a minute for
/// each address, and examples of everything else. It denies nobody.
pub const STARTER: &str = include_str!("starter.yaml");

#[cfg(test)]
mod tests {
    use super::STARTER;
    use crate::{Loaded, parse};

    fn read(text: &str) -> Loaded {
        parse(text, "starter.yaml", None).unwrap_or_else(|report| panic!("{report}"))
    }

    #[test]
    fn it_is_read_without_a_word() {
        let Loaded { policy, warnings, .. } = read(STARTER);
        assert_eq!(warnings, []);
        let rules: Vec<&str> = policy.rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(rules, ["per-ip"]);
        assert!(policy.deny.is_empty() && policy.allow.is_empty());
    }

    #[test]
    fn starter_says_how_many_its_bucket_admits_in_one_minute() {
        let promise = crate::promise::promises(&read(STARTER).policy)[0].to_string();
        assert!(promise.contains("at most 120 requests in any minute"), "{promise}");
        let words: Vec<&str> = STARTER.split_whitespace().filter(|word| *word != "##").collect();
        let told =
            "so up to 120 can pass in one minute. For at most 60 in any minute, add `algorithm: sliding-window-log`";
        assert!(words.join(" ").contains(told), "{told}");
    }

    /// What people are invited to uncomment has to work as well.
    #[test]
    fn its_examples_are_read_too() {
        let is_prose = |line: &&str| line.trim_start().starts_with("## ") || line.trim() == "##";
        let uncommented: Vec<String> =
            STARTER.lines().filter(|line| !is_prose(line)).map(|line| line.replacen("# ", "", 1)).collect();
        let Loaded { policy, warnings, .. } = read(&uncommented.join("\n"));
        // Every policy that limits concurrency is told where that does not hold.
        let codes: Vec<&str> = warnings.iter().map(|warning| warning.code).collect();
        assert_eq!(codes, ["concurrency-elsewhere"]);
        let rules: Vec<&str> = policy.rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(rules, ["per-ip", "per-user", "login", "payments", "reports", "next-limit"]);
    }
}
