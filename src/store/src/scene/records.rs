//! Nodes and edges as bytes: postcard (<https://postcard.jamesmunns.com/wire-format>) behind a byte for the version
//! of the fields.

use serde::de::DeserializeOwned;
use serde::Serialize;

/// Version of the records' fields: the first byte of each.
const FIELDS: u8 = 1;

/// Names and records one behind the other.
#[derive(Default)]
pub(super) struct Raw {
    bytes: Vec<u8>,
    /// Where each name and each record ends.
    ends: Vec<(usize, usize)>,
}

impl Raw {
    pub(super) fn push(&mut self, name: &str, record: &[u8]) {
        self.bytes.extend_from_slice(name.as_bytes());
        let name_end = self.bytes.len();
        self.bytes.extend_from_slice(record);
        self.ends.push((name_end, self.bytes.len()));
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Reads them; of one that can't be read its name and why.
    pub(super) fn read_into<T: DeserializeOwned>(
        &self,
        out: &mut Vec<T>,
    ) -> Result<(), (String, String)> {
        out.reserve(self.len());
        let mut from = 0;
        for (name_end, end) in &self.ends {
            let name = self.bytes.get(from..*name_end).unwrap_or_default();
            let record = self.bytes.get(*name_end..*end).unwrap_or_default();
            let value = decode(record)
                .map_err(|reason| (String::from_utf8_lossy(name).into_owned(), reason))?;
            out.push(value);
            from = *end;
        }
        Ok(())
    }
}

pub(super) fn decode<T: DeserializeOwned>(record: &[u8]) -> Result<T, String> {
    match record.split_first() {
        Some((&FIELDS, fields)) => match postcard::take_from_bytes(fields) {
            Ok((value, [])) => Ok(value),
            Ok((_, rest)) => Err(format!("{} bytes too many", rest.len())),
            Err(error) => Err(error.to_string()),
        },
        Some((version, _)) => Err(format!(
            "its fields have version {version}, this program reads {FIELDS}"
        )),
        None => Err("it is empty".into()),
    }
}

/// Writes a record into a buffer that is used again.
pub(super) fn encode<'a, T: Serialize>(
    value: &T,
    buffer: &'a mut Vec<u8>,
) -> Result<&'a [u8], rusqlite::Error> {
    buffer.clear();
    buffer.push(FIELDS);
    let filled = postcard::to_extend(value, std::mem::take(buffer))
        .map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))?;
    *buffer = filled;
    Ok(buffer)
}
