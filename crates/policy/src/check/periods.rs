//! The periods of what a rule grants.

use crate::model::{Allowance, Grant};

/// The longest period of all that is granted; `None` if nothing is limited.
pub(crate) fn longest_ns(allowance: &Allowance) -> Option<u64> {
    grants(allowance).flat_map(quotas).map(|quota| quota.period_ns()).max()
}

/// What is granted to anybody.
pub(crate) fn grants(allowance: &Allowance) -> impl Iterator<Item = &Grant> {
    let (same, tiers): (Option<&Grant>, &[(String, Grant)]) = match allowance {
        Allowance::Same(grant) => (Some(grant), &[]),
        Allowance::Tiers(tiers) => (None, tiers),
        Allowance::Deny => (None, &[]),
    };
    same.into_iter().chain(tiers.iter().map(|(_, grant)| grant))
}

/// The quotas of a grant; none where it is unlimited.
pub(crate) fn quotas(grant: &Grant) -> &[tollgate_core::Quota] {
    match grant {
        Grant::Unlimited => &[],
        Grant::Limited(quotas) => quotas,
    }
}
