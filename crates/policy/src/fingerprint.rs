use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::model::Policy;

impl Policy {
    /// A short name for all that the policy says: instances that have the same
    /// one decide by the same rules. It is told to whoever reads the metrics,
    /// so keys are no part of it: a hash of a weak secret
    /// beside the known rest could be tried out. Another version of tollgate
    /// may give the same policy another name.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        // Everything here is kept in lists, so the text is the same in every process.
        let hash = Sha256::digest(format!("{self:?}").as_bytes());
        hash[..8].iter().fold(String::with_capacity(16), |mut name, byte| {
            // A string takes whatever is written to it.
            let _ = write!(name, "{byte:02x}");
            name
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{PolicyBuilder, rule};

    fn fingerprint(limit: &str) -> String {
        PolicyBuilder::default().rule(rule("r").per("client_ip").limit(limit)).build().unwrap().fingerprint()
    }

    #[test]
    fn it_is_the_same_for_the_same_policy_and_another_for_another() {
        assert_eq!(fingerprint("1/min"), fingerprint("1/min"));
        assert_ne!(fingerprint("1/min"), fingerprint("2/min"));
        assert_eq!(fingerprint("1/min").len(), 16);
    }
}
