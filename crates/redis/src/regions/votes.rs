//! The regions that an operator waits for after a change of the weights.

use super::division::Division;
use super::exchange::{Exchange, ExchangeServer, HashOp, fields};
use super::sync::OF_ALL;
use super::{RegionDivision, RegionSettings};

/// The beginning of the names of fields with votes, on the global server.
const VOTE: &str = "vote:";

/// Reads which regions have voted for other divisions than that of the policy; `None` without a reply.
pub(crate) async fn read_awaited_votes(
    exchange: &dyn Exchange,
    settings: &RegionSettings,
    agreed: &RegionDivision,
) -> Option<Vec<String>> {
    let name = format!("{}{OF_ALL}", settings.prefix);
    let op = HashOp::All { prefix: VOTE.to_owned() };
    let (_, values) = exchange.run(ExchangeServer::Global, name, op).await?;
    let votes = fields(&values).filter_map(|(field, vote)| Some((field.strip_prefix(VOTE)?, vote)));
    Some(awaited_votes(votes, &settings.division(), agreed))
}

/// Returns the regions whose votes prevent that `own` is agreed: they are part of it or of the agreed division, and have
/// voted for another one. A vote is a number and a division.
fn awaited_votes<'v>(
    votes: impl Iterator<Item = (&'v str, &'v [u8])>,
    own: &Division,
    agreed: &RegionDivision,
) -> Vec<String> {
    let own_regions = own.describe();
    let is_part = |region: &str| {
        let mut weights = own_regions.weights.iter().chain(&agreed.weights);
        weights.any(|(name, _)| name == region)
    };
    let is_own = |vote: &[u8]| {
        let vote = str::from_utf8(vote).ok().and_then(|vote| Division::parse(vote.split_once(' ')?.1));
        vote.as_ref() == Some(own)
    };
    let mut awaited: Vec<String> =
        votes.filter(|(region, vote)| is_part(region) && !is_own(vote)).map(|(region, _)| region.to_owned()).collect();
    awaited.sort_unstable();
    awaited
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn votes_of_old_and_new_regions_for_other_divisions_are_awaited() {
        let division = |text: &str| Division::parse(text).unwrap();
        let (own, agreed) = (division("1000 a=1 b=2 d=3"), division("1000 a=1 b=1 c=1"));
        let votes: [(&str, &[u8]); 5] = [
            ("c", b"3 1000 a=1 b=1 c=1"),
            ("a", b"7 1000 a=1 b=2 d=3"),
            ("b", b"1 2000 a=1 b=2 d=3"),
            ("d", b"1 1000 a=1 b=2 d=3"),
            ("left-long-ago", b"1 1000 a=1"),
        ];
        assert_eq!(awaited_votes(votes.into_iter(), &own, &agreed.describe()), ["b", "c"]);
    }
}
