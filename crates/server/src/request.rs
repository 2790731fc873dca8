use std::net::IpAddr;

/// What a front end has understood of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Who asks. Without it no rule applies.
    pub ip: Option<IpAddr>,
    /// How much it takes. 0 asks what remains and takes nothing.
    pub cost: u64,
}
