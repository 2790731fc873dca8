//! The response fields as an HTTP header map.

use std::cell::RefCell;

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use tollgate_policy::MAX_FIELD_INTEGER;
use tollgate_policy::model::FieldSet;

use super::response::{Field, ToldQuotas, USUAL_BYTES};
use super::writer::FieldWriter;
use crate::verdict::Verdict;

/// The fields of a response. Their values share one allocation.
pub(crate) struct HeaderFields {
    map: HeaderMap,
    /// Whether the map begins with [`PLACES`], without values.
    has_places: bool,
}

/// The fields that most responses have before the layer adds its own.
const PLACES: [HeaderName; 2] = [header::CONTENT_TYPE, header::CONTENT_LENGTH];

/// The fields whose values differ for each response.
const CHANGING: [Field; 3] = [Field::RateLimit, Field::XRateLimitRemaining, Field::XRateLimitReset];

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::new(Kept {
        templates: (0..TEMPLATES).map(|_| None).collect(),
        text: BytesMut::new(),
    });
}

/// Data that a thread keeps, so that most responses allocate one map.
struct Kept {
    templates: Box<[Option<Template>]>,
    /// Shared by responses while it has capacity.
    text: BytesMut,
}

/// The number of templates. Few policies have more sets of limits that apply together; a set whose slot is taken
/// replaces the other.
const TEMPLATES: usize = 64;

/// The capacity in bytes, for some twenty responses. A response that is kept keeps the whole buffer.
const TEXT_BYTES: usize = 4 << 10;

/// The header map of responses about the same limits: [`PLACES`] and [`CHANGING`] without values, then the other two of
/// the five fields. Cloning it is cheaper than hashing the names of the fields for every response.
struct Template {
    /// The policy's number.
    generation: u64,
    quotas: ToldQuotas,
    /// The quota of `X-RateLimit-Limit`.
    told_quota: u32,
    map: HeaderMap,
}

impl Verdict {
    /// Returns the response fields as a header map.
    pub(crate) fn header_fields(&self) -> HeaderFields {
        match self.usual_fields() {
            Some(map) => HeaderFields { map, has_places: true },
            None => HeaderFields { map: self.any_fields(), has_places: false },
        }
    }

    #[cold]
    #[inline(never)]
    fn any_fields(&self) -> HeaderMap {
        let (text, written) = self.write_fields();
        let text = Bytes::from(text);
        written.into_iter().map(|(field, range)| (field.header_name(), value(text.slice(range)))).collect()
    }

    /// Returns the fields of a request that passes without a warning, if the policy sends both sets.
    #[inline]
    fn usual_fields(&self) -> Option<HeaderMap> {
        let told = self.told_state()?;
        let is_usual = self.is_allowed()
            && self.warned().is_empty()
            && self.policy().fields().sets == [FieldSet::Ietf, FieldSet::XRateLimit]
            && told.decision.limit == self.policy.quotas[told.quota as usize].max_remaining
            && told.decision.remaining <= MAX_FIELD_INTEGER;
        let reset_s = self.reset_s(told).filter(|_| is_usual)?;
        KEPT.with_borrow_mut(|Kept { templates, text }| {
            if text.capacity() < USUAL_BYTES {
                *text = BytesMut::with_capacity(TEXT_BYTES);
            }
            let mut writer = FieldWriter::new(text);
            let mut quotas = ToldQuotas::new();
            let mut remaining = 0..0;
            for state in self.published() {
                quotas.push(self.told_quota(state));
                let digits = self.write_state(state, 0, &mut writer);
                if std::ptr::eq(state, told) {
                    remaining = digits;
                }
            }
            let ratelimit = writer.end_value();
            let reset = writer.push_number(reset_s);
            let mut text = text.split().freeze();
            let mut map = self.template(templates, &quotas, told.quota).clone();
            let mut places = map.values_mut();
            for _ in PLACES {
                places.next();
            }
            *places.next()? = value(text.slice(ratelimit));
            *places.next()? = value(text.slice(remaining));
            text.advance(reset.start);
            *places.next()? = value(text);
            Some(map)
        })
    }

    #[inline]
    fn template<'t>(&self, templates: &'t mut [Option<Template>], quotas: &[u32], told_quota: u32) -> &'t HeaderMap {
        let generation = self.policy.policy_lists.generation;
        let mix = |mixed: usize, quota: &u32| mixed.wrapping_mul(31).wrapping_add(*quota as usize);
        let kept = &mut templates[quotas.iter().fold(mix(generation as usize, &told_quota), mix) % TEMPLATES];
        let is_ours = |kept: &Template| {
            kept.generation == generation && kept.told_quota == told_quota && kept.quotas.iter().eq(quotas)
        };
        if !kept.as_ref().is_some_and(is_ours) {
            *kept = None;
        }
        &kept.get_or_insert_with(|| self.new_template(quotas, told_quota)).map
    }

    #[cold]
    #[inline(never)]
    fn new_template(&self, quotas: &[u32], told_quota: u32) -> Template {
        let empty = || HeaderValue::from_static("");
        let constant = [
            (Field::RateLimitPolicy, self.policy_list(quotas).header_value()),
            (Field::XRateLimitLimit, self.policy.quotas[told_quota as usize].limit_text.header_value()),
        ];
        let own = CHANGING.map(|field| (field, empty())).into_iter().chain(constant);
        let own = own.map(|(field, value)| (field.header_name(), value));
        let map = PLACES.map(|name| (name, empty())).into_iter().chain(own).collect();
        Template { generation: self.policy.policy_lists.generation, quotas: quotas.into(), told_quota, map }
    }
}

impl HeaderFields {
    /// Returns the fields as a header map.
    pub(crate) fn into_map(mut self) -> HeaderMap {
        if self.has_places {
            PLACES.into_iter().for_each(|name| drop(self.map.remove(name)));
        }
        self.map
    }

    /// Puts the fields into the header map of a response, replacing fields of the same names.
    pub(crate) fn put_into(mut self, headers: &mut HeaderMap) {
        if self.has_places && self.take_from(headers).is_some() {
            *headers = self.map;
        } else {
            headers.extend(self.into_map());
        }
    }

    /// Moves the fields of a response into this map, if it has no others than [`PLACES`], each at most once. Otherwise
    /// returns `None` and changes nothing.
    #[inline]
    fn take_from(&mut self, headers: &mut HeaderMap) -> Option<()> {
        let (mut content_type, mut content_length) = (None, None);
        for (name, value) in headers {
            let known = match *name {
                header::CONTENT_TYPE => &mut content_type,
                header::CONTENT_LENGTH => &mut content_length,
                _ => return None,
            };
            if known.replace(value).is_some() {
                return None;
            }
        }
        let lacks = [content_type.is_none(), content_length.is_none()];
        for (place, known) in self.map.values_mut().zip([content_type, content_length]) {
            if let Some(known) = known {
                std::mem::swap(place, known);
            }
        }
        for (name, _) in PLACES.into_iter().zip(lacks).filter(|(_, lacks)| *lacks) {
            self.map.remove(name);
        }
        Some(())
    }
}

#[allow(unsafe_code, reason = "checking every byte of every response would take as long as writing it")]
#[inline]
fn value(value: Bytes) -> HeaderValue {
    // SAFETY: all callers pass text of a `FieldWriter` only: `FieldText`, which is visible ASCII and spaces by
    // construction, digits, and the separators in its code. All of these are valid in a header value.
    unsafe { HeaderValue::from_maybe_shared_unchecked(value) }
}

impl Field {
    /// Returns its name as a header name.
    pub(crate) fn header_name(self) -> HeaderName {
        HeaderName::from_static(self.name())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tollgate_policy::{Request, rule};

    use super::*;
    use crate::limiter::Limiter;

    fn sorted(headers: &HeaderMap) -> Vec<(String, String)> {
        let lines = headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap_or("?").to_owned()));
        let mut lines: Vec<_> = lines.collect();
        lines.sort();
        lines
    }

    fn lines(verdict: &Verdict) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        verdict.fields(|field, value| lines.push((field.name().to_owned(), value.to_owned())));
        lines.sort();
        lines
    }

    #[test]
    fn fields_replace_same_names_and_keep_others() {
        let limiter = Limiter::builder().rule(rule("r").limit("1/min")).build().unwrap();
        let known = [
            ("content-type", "text/plain"),
            ("content-length", "12"),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
            ("content-type", "text/html"),
            ("x-ratelimit-limit", "of the handler"),
        ];
        let request = Request::from_peer(None);
        let (passed, refused) = (limiter.check(&request), limiter.check(&request));
        assert!(passed.is_allowed() && !refused.is_allowed());
        for verdict in [passed, refused] {
            // Every subset of the fields that a response may have.
            for chosen in 0..1 << known.len() {
                let chosen = known.iter().enumerate().filter(|(at, _)| chosen >> at & 1 == 1).map(|(_, line)| *line);
                let mut headers = HeaderMap::new();
                for (name, value) in chosen {
                    headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
                }
                let mut expected = headers.clone();
                verdict.fields(|field, value| {
                    expected.insert(field.name(), HeaderValue::from_str(value).unwrap());
                });
                verdict.header_fields().put_into(&mut headers);
                assert_eq!(sorted(&headers), sorted(&expected));
            }
        }
    }

    #[test]
    fn template_and_plain_fields_are_equal() {
        // More sets of limits than templates, of two policies in turn: one path for each set.
        let policy = |limit: &str| {
            let has = |set: u32, at: u32| set >> at & 1 == 1;
            let of_rule = |at| (1..1 << 7).filter(move |set| has(*set, at)).map(|set| format!("/{set}"));
            let rule = |at| of_rule(at).fold(rule(&format!("r{at}")).limit(limit), |rule, path| rule.path(&path));
            (0..7).fold(Limiter::builder(), |builder, at| builder.rule(rule(at))).build().unwrap()
        };
        let limiters = [policy("1000000/min"), policy("500/day")];
        let mut templates = 0;
        for set in (1..1 << 7).chain(1..1 << 7) {
            let path = format!("/{set}");
            for limiter in &limiters {
                let verdict = limiter.check(&Request { target: &path, ..Request::from_peer(None) });
                let fields = verdict.header_fields();
                templates += usize::from(fields.has_places);
                assert_eq!(sorted(&fields.into_map()), lines(&verdict), "{path}");
            }
        }
        assert_eq!(templates, 2 * 2 * 127);
    }
}
