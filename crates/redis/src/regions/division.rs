//! How a limit is divided among regions, and what the regions have agreed on.

use std::fmt;
use std::time::Duration;

use tollgate_core::RegionShare;

use super::RegionDivision;

/// The weights of all regions and the length of an epoch: what must be the same in all regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Division {
    pub(crate) epoch_ms: u64,
    /// By name, in their order.
    weights: Vec<(String, u32)>,
}

impl Division {
    pub(crate) fn new(epoch_ms: u64, mut weights: Vec<(String, u32)>) -> Division {
        weights.sort();
        Division { epoch_ms: epoch_ms.max(1), weights }
    }

    /// Reads the text written by `Display`.
    pub(crate) fn parse(text: &str) -> Option<Division> {
        let mut words = text.split(' ');
        let epoch_ms = words.next()?.parse().ok().filter(|ms| *ms > 0)?;
        let weight = |word: &str| {
            let (name, weight) = word.split_once('=')?;
            Some((name.to_owned(), weight.parse().ok()?))
        };
        let weights = words.map(weight).collect::<Option<Vec<_>>>()?;
        (!weights.is_empty()).then(|| Division::new(epoch_ms, weights))
    }

    /// Returns the weights and the epoch as reported to operators.
    pub(crate) fn describe(&self) -> RegionDivision {
        RegionDivision { weights: self.weights.clone(), epoch: Duration::from_millis(self.epoch_ms) }
    }

    /// Returns the share of a region; nothing if it is not one of the regions.
    pub(crate) fn share(&self, region: &str) -> RegionShare {
        let total = self.weights.iter().map(|(_, weight)| u64::from(*weight)).sum::<u64>();
        let weight = self.weights.iter().find(|(name, _)| name == region).map_or(0, |(_, weight)| *weight);
        RegionShare::new(weight, u32::try_from(total).unwrap_or(u32::MAX))
    }
}

impl fmt::Display for Division {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.epoch_ms)?;
        self.weights.iter().try_for_each(|(name, weight)| write!(f, " {name}={weight}"))
    }
}

/// What all regions have agreed on, as one region knows it. It is stored in the region.
///
/// A region votes for the division in its policy, and stores that before it sends the vote. When all regions vote for the
/// same division, it is agreed, and holds from an epoch after the next one. A region enforces the smallest of the shares
/// that it may have by any of these: the divisions that it may have voted for, the agreed one and, until that holds, the
/// one before. So shares shrink before others grow, whatever messages are lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Agreement {
    pub(crate) agreed: Option<Agreed>,
    /// The votes that may stand at the global server, and the number of the last one.
    pub(crate) votes: Vec<Division>,
    pub(crate) last_vote: u64,
}

/// The agreed division.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) division: Division,
    /// The division before.
    pub(crate) previous: Option<Division>,
    /// The start of the epoch from which it holds, in milliseconds of the global server's clock.
    pub(crate) since_ms: u64,
}

impl Agreed {
    /// Returns what the global server stores: when the division holds, with the division, and the one before.
    pub(crate) fn texts(&self) -> [String; 2] {
        let previous = self.previous.as_ref().map(Division::to_string);
        [format!("{} {}", self.since_ms, self.division), previous.unwrap_or_default()]
    }
}

impl Agreement {
    /// Returns the share of a region that no other region enforces, at a time of the global server's clock of which
    /// `now_ms` is a lower bound; `None` if nothing is agreed yet.
    pub(crate) fn share(&self, region: &str, now_ms: u64) -> Option<RegionShare> {
        let agreed = self.agreed.as_ref()?;
        let previous = agreed.previous.iter().filter(|_| now_ms < agreed.since_ms);
        let shares = self.votes.iter().chain(previous).map(|division| division.share(region));
        Some(shares.fold(agreed.division.share(region), RegionShare::smaller))
    }

    /// Returns the length of an epoch at a time of the global server's clock.
    pub(crate) fn epoch_ms(&self, now_ms: u64) -> Option<u64> {
        let agreed = self.agreed.as_ref()?;
        let previous = agreed.previous.as_ref().filter(|_| now_ms < agreed.since_ms);
        Some(previous.unwrap_or(&agreed.division).epoch_ms)
    }

    /// Returns whether nothing may be lent in an epoch that begins at `start_ms`, because the length of epochs changes.
    pub(crate) fn is_changing(&self, start_ms: u64) -> bool {
        self.agreed.as_ref().is_none_or(|Agreed { division, previous, since_ms }| {
            let longest_ms = previous.as_ref().map_or(0, |previous| previous.epoch_ms.max(division.epoch_ms));
            let is_longer = previous.as_ref().is_some_and(|previous| previous.epoch_ms != division.epoch_ms);
            is_longer
                && start_ms.saturating_add(longest_ms) > *since_ms
                && start_ms < since_ms.saturating_add(longest_ms)
        })
    }

    /// Adds a vote that is about to be sent.
    pub(crate) fn will_vote(&mut self, division: &Division) {
        self.last_vote += 1;
        self.votes.retain(|vote| vote != division);
        self.votes.push(division.clone());
    }

    /// Writes what is kept in the region.
    pub(crate) fn encode(&self) -> String {
        let mut text = format!("vote {}\n", self.last_vote);
        self.votes.iter().for_each(|division| text.push_str(&format!("voted {division}\n")));
        if let Some(Agreed { division, previous, since_ms }) = &self.agreed {
            text.push_str(&format!("agreed {since_ms} {division}\n"));
            previous.iter().for_each(|division| text.push_str(&format!("previous {division}\n")));
        }
        text
    }

    /// Reads what [`encode`](Agreement::encode) has written; `None` if it is malformed.
    pub(crate) fn decode(text: &str) -> Option<Agreement> {
        let mut agreement = Agreement::default();
        let mut previous = None;
        for line in text.lines() {
            let (kind, rest) = line.split_once(' ')?;
            match kind {
                "vote" => agreement.last_vote = rest.parse().ok()?,
                "voted" => agreement.votes.push(Division::parse(rest)?),
                "agreed" => {
                    let (since_ms, division) = rest.split_once(' ')?;
                    let (division, since_ms) = (Division::parse(division)?, since_ms.parse().ok()?);
                    agreement.agreed = Some(Agreed { division, previous: None, since_ms });
                }
                "previous" => previous = Some(Division::parse(rest)?),
                _ => return None,
            }
        }
        if let Some(agreed) = &mut agreement.agreed {
            agreed.previous = previous;
        }
        Some(agreement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn division(text: &str) -> Division {
        Division::parse(text).unwrap()
    }

    #[test]
    fn text_of_a_division_is_read_as_it_was_written_and_malformed_text_is_not() {
        let three = Division::new(10_000, vec![("us".into(), 30), ("eu".into(), 50), ("ap".into(), 20)]);
        assert_eq!(three.to_string(), "10000 ap=20 eu=50 us=30");
        assert_eq!(division("10000 eu=50 ap=20 us=30"), three);
        assert_eq!(three.share("us").rate, 300);
        assert_eq!(three.share("other").rate, 0);
        for malformed in ["", "0 a=1", "10 a", "10", "x a=1", "10 a=x"] {
            assert_eq!(Division::parse(malformed), None, "{malformed}");
        }
    }

    #[test]
    fn smallest_share_of_all_divisions_that_may_hold_is_enforced() {
        let (before, after) = (division("10000 a=50 b=50"), division("10000 a=80 b=20"));
        let mut agreement = Agreement::default();
        let rate = |agreement: &Agreement, region, now_ms| agreement.share(region, now_ms).map(|share| share.rate);
        assert_eq!(rate(&agreement, "a", 0), None);
        agreement.agreed = Some(Agreed { division: after.clone(), previous: Some(before.clone()), since_ms: 50_000 });
        assert_eq!(rate(&agreement, "a", 49_999), Some(500));
        assert_eq!(rate(&agreement, "a", 50_000), Some(800));
        assert_eq!(rate(&agreement, "b", 0), Some(200));
        agreement.will_vote(&before);
        assert_eq!(rate(&agreement, "a", 50_000), Some(500));
        agreement.votes = vec![division("10000 a=10 b=90")];
        assert_eq!(rate(&agreement, "a", 50_000), Some(100));
    }

    #[test]
    fn nothing_is_lent_around_a_change_of_the_length_of_epochs() {
        let agreed = |previous: &str| Agreement {
            agreed: Some(Agreed {
                division: division("5000 a=1 b=1"),
                previous: Some(division(previous)),
                since_ms: 50_000,
            }),
            ..Agreement::default()
        };
        let changing = agreed("10000 a=1 b=1");
        let starts: Vec<u64> =
            (0..10).map(|epoch| epoch * 10_000).filter(|start| changing.is_changing(*start)).collect();
        assert_eq!(starts, [50_000]);
        assert!(changing.is_changing(41_000));
        assert_eq!((changing.epoch_ms(49_999), changing.epoch_ms(50_000)), (Some(10_000), Some(5_000)));
        assert!(!agreed("5000 a=1 b=3").is_changing(50_000));
    }

    #[test]
    fn agreement_is_read_as_it_was_written() {
        let (before, after) = (division("10000 a=50 b=50"), division("5000 a=80 b=20"));
        let mut agreement = Agreement { votes: vec![before.clone(), after.clone()], last_vote: 7, agreed: None };
        assert_eq!(Agreement::decode(&agreement.encode()), Some(agreement.clone()));
        agreement.agreed = Some(Agreed { division: after, previous: Some(before), since_ms: 3 });
        assert_eq!(Agreement::decode(&agreement.encode()), Some(agreement));
        assert_eq!(Agreement::decode(""), Some(Agreement::default()));
        assert_eq!(Agreement::decode("agreed x"), None);
    }
}
