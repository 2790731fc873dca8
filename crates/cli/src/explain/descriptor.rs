//! A descriptor from flags, as a gateway sends it.

use clap::Args;
use tollgate::Request;
use tollgate::policy::Descriptor;

use crate::request::{NameValue, borrowed, name_and_value};

#[derive(Debug, Args)]
pub(super) struct DescriptorArguments {
    /// Domain of a descriptor, as a gateway sends it; everything else is in --entry
    #[arg(
        long,
        conflicts_with_all = ["ip", "user", "identities", "method", "host", "path", "headers"],
        env = "TOLLGATE_EXPLAIN_DOMAIN",
        hide_env_values = true
    )]
    domain: Option<String>,

    /// Entry of the descriptor; may be repeated
    ///
    /// The variable holds one in each line.
    #[arg(
        long = "entry",
        value_name = "NAME=VALUE",
        value_parser = name_and_value,
        requires = "domain",
        env = "TOLLGATE_EXPLAIN_ENTRY",
        hide_env_values = true,
        value_delimiter = '\n'
    )]
    entries: Vec<NameValue>,
}

impl DescriptorArguments {
    pub(super) fn entries(&self) -> Vec<(&str, &str)> {
        borrowed(&self.entries).collect()
    }

    pub(super) fn descriptor<'a>(&'a self, entries: &'a [(&'a str, &'a str)]) -> Option<Descriptor<'a>> {
        self.domain.as_deref().map(|domain| Descriptor { domain, entries })
    }

    pub(super) fn request<'a>(descriptor: &'a Descriptor<'a>, cost: u64) -> Request<'a> {
        Request { cost, ..Request::from_descriptor(descriptor) }
    }
}
