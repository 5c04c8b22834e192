//! Rows of either protocol as text, for a run that looks at what it reads.
//!
//! Integers and everything that the server sends as a text are decoded; other values of the binary protocol, such as
//! dates, are shown as the bytes that came.
//!
//! Must not import: anything that does I/O or measures.

use super::response::{Form, Rows};
use super::wire::{Bytes, WireError};
use crate::target::Row;

const UNSIGNED: u16 = 1 << 5;
/// What precedes the type in a column's description: six texts, the length of what follows, character set and length of
/// the column (dev:page_protocol_com_query_response_text_resultset_column_definition.html).
const TEXTS_BEFORE: usize = 6;
const BYTES_BEFORE: usize = 1 + 2 + 4;

/// Type and signedness of a column.
#[derive(Clone, Copy, Debug)]
struct Column {
    kind: u8,
    unsigned: bool,
}

/// Shows each row.
pub struct Values<'a> {
    show: &'a mut dyn FnMut(Row<'_>),
    form: Form,
    columns: Vec<Column>,
    packet: Vec<u8>,
}

impl<'a> Values<'a> {
    pub fn new(show: &'a mut dyn FnMut(Row<'_>)) -> Values<'a> {
        Values { show, form: Form::Text, columns: Vec::new(), packet: Vec::new() }
    }
}

/// A value, either as it stands in the packet or as a number.
enum Value<'a> {
    Null,
    Bytes(&'a [u8]),
    Number(String),
}

impl Value<'_> {
    fn text(&self) -> Option<&[u8]> {
        match self {
            Value::Null => None,
            Value::Bytes(bytes) => Some(bytes),
            Value::Number(digits) => Some(digits.as_bytes()),
        }
    }
}

impl Rows for Values<'_> {
    fn expect(&mut self, form: Form) {
        self.form = form;
    }

    fn column_part(&mut self, bytes: &[u8]) {
        self.packet.extend_from_slice(bytes);
    }

    fn column_end(&mut self) -> Result<(), WireError> {
        self.columns.push(column(&self.packet).ok_or(WireError::Violation("a column without a type"))?);
        self.packet.clear();
        Ok(())
    }

    fn part(&mut self, bytes: &[u8]) {
        self.packet.extend_from_slice(bytes);
    }

    fn end(&mut self) -> Result<(), WireError> {
        let values = match self.form {
            Form::Text => self.columns.iter().scan(Bytes(&self.packet), |bytes, _| Some(text_value(bytes))).collect(),
            Form::Binary => binary_values(&self.packet, &self.columns),
        };
        let values: Vec<Value<'_>> = values.ok_or(WireError::Violation("a row ends inside a value"))?;
        (self.show)(&values.iter().map(Value::text).collect::<Vec<_>>());
        self.packet.clear();
        Ok(())
    }
}

fn column(packet: &[u8]) -> Option<Column> {
    let mut bytes = Bytes(packet);
    for _ in 0..TEXTS_BEFORE {
        sized(&mut bytes)?;
    }
    bytes.take(BYTES_BEFORE)?;
    Some(Column { kind: bytes.u8()?, unsigned: bytes.u16()? & UNSIGNED != 0 })
}

/// A text after its length.
fn sized<'a>(bytes: &mut Bytes<'a>) -> Option<&'a [u8]> {
    let length = bytes.lenenc()?;
    bytes.take(usize::try_from(length).ok()?)
}

fn text_value<'a>(bytes: &mut Bytes<'a>) -> Option<Value<'a>> {
    let null = 0xfb;
    match bytes.0.first() {
        Some(&first) if first == null => {
            bytes.u8();
            Some(Value::Null)
        }
        _ => sized(bytes).map(Value::Bytes),
    }
}

/// A mark, the bits of the values that are NULL, and the others (dev:page_protocol_binary_resultset.html).
fn binary_values<'a>(packet: &'a [u8], columns: &[Column]) -> Option<Vec<Value<'a>>> {
    let mut bytes = Bytes(packet);
    bytes.u8()?;
    let nulls = bytes.take((columns.len() + 2).div_ceil(8))?;
    let is_null = |at: usize| nulls[(at + 2) / 8] & 1 << ((at + 2) % 8) != 0;
    let value = |at: usize| if is_null(at) { Some(Value::Null) } else { binary_value(&mut bytes, columns[at]) };
    (0..columns.len()).map(value).collect()
}

fn binary_value<'a>(bytes: &mut Bytes<'a>, column: Column) -> Option<Value<'a>> {
    // Types and their lengths (dev:field__types_8h.html).
    let length = match column.kind {
        0x01 => 1,
        0x02 | 0x0d => 2,
        0x03 | 0x09 => 4,
        0x08 => 8,
        0x04 => return bytes.take(4).map(Value::Bytes),
        0x05 => return bytes.take(8).map(Value::Bytes),
        _ => return sized(bytes).map(Value::Bytes),
    };
    let taken = bytes.take(length)?;
    let negative = !column.unsigned && taken.last().is_some_and(|&highest| highest >= 0x80);
    let mut whole = if negative { [0xff; 8] } else { [0; 8] };
    whole[..length].copy_from_slice(taken);
    Some(Value::Number(match column.unsigned {
        true => u64::from_le_bytes(whole).to_string(),
        false => i64::from_le_bytes(whole).to_string(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT: u8 = 0x03;
    const BIGINT: u8 = 0x08;
    const TEXT: u8 = 0xfe;

    fn shown(form: Form, columns: &[(u8, u16)], row: &[u8]) -> Result<Vec<Option<String>>, WireError> {
        let mut shown = Vec::new();
        let mut show = |row: Row<'_>| {
            shown = row.iter().map(|value| value.map(|value| String::from_utf8(value.to_vec()).unwrap())).collect();
        };
        let mut values = Values::new(&mut show);
        values.expect(form);
        for (kind, flags) in columns {
            let before = b"\x03def\x02db\x01t\x01t\x01c\x01c\x0c\x2d\x00\xff\x00\x00\x00";
            // Cut in the middle, as it may come.
            values.column_part(&before[..7]);
            values.column_part(&before[7..]);
            values.column_part(&[&[*kind][..], &flags.to_le_bytes(), &[0, 0, 0]].concat());
            values.column_end()?;
        }
        row.chunks(3).for_each(|part| values.part(part));
        values.end()?;
        Ok(shown)
    }

    #[test]
    fn both_protocols_show_the_same_text() {
        let expected = [Some("-7".into()), Some("18446744073709551615".into()), None, Some("abc".into())];
        let columns = [(INT, 0), (BIGINT, UNSIGNED), (INT, 0), (TEXT, 0)];
        let text = b"\x02-7\x1418446744073709551615\xfb\x03abc";
        assert_eq!(shown(Form::Text, &columns, text).unwrap(), expected);
        let binary = [&[0, 0b1_0000][..], &(-7i32).to_le_bytes(), &u64::MAX.to_le_bytes(), b"\x03abc"].concat();
        assert_eq!(shown(Form::Binary, &columns, &binary).unwrap(), expected);
        for end in 2..binary.len() {
            assert!(shown(Form::Binary, &columns, &binary[..end]).is_err(), "{end}");
        }
    }
}
