//! A few words by name, such as the attributes of a node.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Values by key, in the order of the keys, each key once.
///
/// There are few in each and a hundred thousand of these: one row that is no longer than it has to be. The first
/// entry of a `BTreeMap` takes 544 B, here it takes 48. Who has many keys in one is better served there.
///
/// Serializes as a map.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyValues(Vec<(String, String)>);

impl KeyValues {
    /// Creates one with nothing in it.
    pub const fn new() -> Self {
        KeyValues(Vec::new())
    }

    fn place(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(k, _)| k.as_str().cmp(key))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&String> {
        let place = self.place(key).ok()?;
        self.0.get(place).map(|(_, value)| value)
    }

    /// True when there is a value of this key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.place(key).is_ok()
    }

    /// Sets the value of a key; returns the one that it had.
    pub fn insert(&mut self, key: String, value: String) -> Option<String> {
        match self.place(&key) {
            Ok(place) => {
                let (_, known) = self.0.get_mut(place)?;
                Some(std::mem::replace(known, value))
            }
            Err(place) => {
                self.0.reserve_exact(1);
                self.0.insert(place, (key, value));
                None
            }
        }
    }

    /// Takes a key out; returns its value.
    pub fn remove(&mut self, key: &str) -> Option<String> {
        let place = self.place(key).ok()?;
        Some(self.0.remove(place).1)
    }

    /// Keys and values, by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&String, &String)> + Clone {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &String> + Clone {
        self.0.iter().map(|(key, _)| key)
    }

    /// The values, by key.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &String> + Clone {
        self.0.iter().map(|(_, value)| value)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for KeyValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Extend<(String, String)> for KeyValues {
    fn extend<I: IntoIterator<Item = (String, String)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl FromIterator<(String, String)> for KeyValues {
    /// Of a key that comes twice the last value counts.
    fn from_iter<I: IntoIterator<Item = (String, String)>>(entries: I) -> Self {
        // Through a map, so that many entries in a bad order take no longer than they have to.
        KeyValues::from(BTreeMap::from_iter(entries))
    }
}

impl<const N: usize> From<[(String, String); N]> for KeyValues {
    fn from(entries: [(String, String); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl From<BTreeMap<String, String>> for KeyValues {
    fn from(map: BTreeMap<String, String>) -> Self {
        let mut entries = Vec::with_capacity(map.len());
        entries.extend(map);
        KeyValues(entries)
    }
}

impl From<KeyValues> for BTreeMap<String, String> {
    fn from(entries: KeyValues) -> Self {
        entries.0.into_iter().collect()
    }
}

impl IntoIterator for KeyValues {
    type Item = (String, String);
    type IntoIter = std::vec::IntoIter<(String, String)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a KeyValues {
    type Item = (&'a String, &'a String);
    type IntoIter = std::iter::Map<
        std::slice::Iter<'a, (String, String)>,
        fn(&'a (String, String)) -> (&'a String, &'a String),
    >;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(|(key, value)| (key, value))
    }
}

impl Serialize for KeyValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for KeyValues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = KeyValues;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<KeyValues, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry::<String, String>()? {
                    if entries.len() < 4 {
                        entries.reserve_exact(1);
                    }
                    entries.push(entry);
                }
                // What was written by this type is in order already.
                if entries.is_sorted_by(|a, b| a.0 < b.0) {
                    entries.shrink_to_fit();
                    return Ok(KeyValues(entries));
                }
                Ok(entries.into_iter().collect())
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(String, String),
        Remove(String),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            ("[a-e]{0,2}", "[x-z]").prop_map(|(k, v)| Step::Insert(k, v)),
            "[a-e]{0,2}".prop_map(Step::Remove),
        ];
        proptest::collection::vec(step, 0..40)
    }

    proptest! {
        #[test]
        fn it_does_what_a_map_does(steps in steps()) {
            let (mut ours, mut map) = (KeyValues::new(), BTreeMap::new());
            for step in steps {
                match step {
                    Step::Insert(k, v) => {
                        prop_assert_eq!(ours.insert(k.clone(), v.clone()), map.insert(k, v));
                    }
                    Step::Remove(k) => prop_assert_eq!(ours.remove(&k), map.remove(&k)),
                }
                prop_assert!(ours.iter().eq(map.iter()));
                prop_assert_eq!(ours.len(), map.len());
            }
            for (k, v) in &map {
                prop_assert_eq!(ours.get(k), Some(v));
            }
            let text = serde_json::to_string(&map).unwrap();
            prop_assert_eq!(&serde_json::to_string(&ours).unwrap(), &text);
            prop_assert_eq!(&serde_json::from_str::<KeyValues>(&text).unwrap(), &ours);
            let backwards: KeyValues = map.into_iter().rev().collect();
            prop_assert_eq!(&backwards, &ours);
        }
    }

    #[test]
    fn keys_out_of_order_or_twice_are_put_right() {
        let read: KeyValues = serde_json::from_str(r#"{"b":"1","a":"2","b":"3"}"#).unwrap();
        assert_eq!(
            read,
            KeyValues::from([("a".into(), "2".into()), ("b".into(), "3".into())])
        );
        assert_eq!(format!("{read:?}"), r#"{"a": "2", "b": "3"}"#);
    }
}
