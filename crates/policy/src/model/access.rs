use ipnet::IpNet;

use super::TextPattern;

/// Clients that are treated before any rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccessList {
    /// By address.
    pub client_ip: Vec<IpNet>,
    /// By other identities: a name, and the values that are meant.
    pub identities: Vec<(String, Vec<TextPattern>)>,
}

impl AccessList {
    /// Whether nobody is meant.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.client_ip.is_empty() && self.identities.is_empty()
    }
}
