//! Tables over fields of one's own: ternary and range entries with priorities, as switches have them.

use std::ffi::c_char;

use firstmatch::Policy;
use firstmatch::core::rule::{Action, NamedCondition, Priority, RuleSet, RuleSpec, Test};
use firstmatch::core::schema::{Field, Kind, MAX_FIELD_BITS, MAX_FIELDS};
use firstmatch::core::{Location, RecordLayout, Schema};

use crate::error::{ErrorHandle, call_with};
use crate::firewall::FirewallHandle;
use crate::guard::{self, Handle, Out};
use crate::options::OptionsC;
use crate::rule::{FIRSTMATCH_TEST_MASK, FIRSTMATCH_TEST_PREFIX, FIRSTMATCH_TEST_RANGE, FIRSTMATCH_TEST_VALUE, Number};
use crate::schema::LayoutHandle;
use crate::status::Failure;

/// Field of a table's key.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TableFieldC {
    /// Name, which ends with NUL.
    pub name: *const c_char,
    /// Width in bits, 1 to 128. In a key it takes as many whole bytes as it needs, in network order.
    pub width: u32,
    /// Kind of test that most entries have, `FIRSTMATCH_TEST_VALUE` to `FIRSTMATCH_TEST_MASK`, or 0: a hint for speed.
    pub kind: u32,
}

/// Range of a field in an entry, from `first` to `last`, both included.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RangeC {
    /// Index of the field. The entry's mask is 0 there.
    pub field: u32,
    /// 0.
    pub reserved: u32,
    /// Smallest value.
    pub first: Number,
    /// Largest value.
    pub last: Number,
}

/// Entry of a table. What is not used is zero.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EntryC {
    /// Size of this struct in bytes.
    pub size: u32,
    /// Priority: the larger wins, and among equal ones the entry that was added first.
    pub priority: u32,
    /// Value that every decision of the entry carries.
    pub value: u64,
    /// Bits of a matching key, with as many bytes as the key; null if the mask is null.
    pub key: *const u8,
    /// Bits that are compared, with as many bytes as the key; null compares none.
    pub mask: *const u8,
    /// Ranges, at most one a field.
    pub ranges: *const RangeC,
    /// Number of ranges.
    pub range_count: usize,
}

/// Entries of a table before a firewall is built from them.
#[derive(Debug)]
pub struct TableHandle(());

/// Table as it stands behind its handle.
#[derive(Debug)]
pub(crate) struct TableValue {
    rules: RuleSet,
    added: u32,
}

impl Handle for TableHandle {
    const MAGIC: u64 = 0x6669_7273_7454_4142;
    const NAME: &'static str = "the table";
    type Value = TableValue;
}

fn bytes_of(field: &Field) -> usize {
    field.width().div_ceil(8) as usize
}

fn key_bytes(schema: &Schema) -> usize {
    schema.fields().iter().map(bytes_of).sum()
}

/// Returns the bits of a field in a key, of which the first bytes are its.
fn bits(key: &[u8]) -> u128 {
    key.iter().fold(0, |value, &byte| value << 8 | u128::from(byte))
}

/// Returns the narrowest test for a value under a mask, because engines are fastest with it; `None` compares no bit.
fn ternary(field: &Field, value: u128, mask: u128) -> Result<Option<Test>, Failure> {
    let (name, max) = (field.name(), field.max());
    if mask > max || value & !mask != 0 {
        return Err(Failure::invalid(format!("the entry has bits of {name} that the mask or the width leaves out")));
    }
    let wild = max & !mask;
    Ok(match mask {
        0 => None,
        _ if wild == 0 => Some(Test::Value(value)),
        _ if wild & wild.wrapping_add(1) == 0 => {
            Some(Test::Prefix { value, len: field.width() - wild.trailing_ones() })
        }
        _ => Some(Test::Mask { value, mask }),
    })
}

impl TableValue {
    /// Returns the rule of an entry.
    fn rule(&self, entry: &EntryC, key: &[u8], mask: &[u8], ranges: &[RangeC]) -> Result<RuleSpec, Failure> {
        let schema = &self.rules.schemas()[0];
        let mut tests = Vec::with_capacity(schema.fields().len());
        let mut at = 0;
        for field in schema.fields() {
            let of = at..at + bytes_of(field);
            at = of.end;
            tests.push(if mask.is_empty() { None } else { ternary(field, bits(&key[of.clone()]), bits(&mask[of]))? });
        }
        for range in ranges {
            let (lo, hi) = (range.first.get(), range.last.get());
            match tests.get_mut(range.field as usize) {
                Some(test @ None) if range.reserved == 0 => *test = Some(Test::Range { lo, hi }),
                _ => return Err(Failure::invalid(format!("the entry has another test of field {}", range.field))),
            }
        }
        let named = |(field, test): (&Field, Option<Test>)| Some(NamedCondition::new(field.name(), [test?]));
        let conditions = schema.fields().iter().zip(tests).filter_map(named);
        let conditions = self.rules.bind(conditions).map_err(firstmatch::Error::from)?;
        // The smaller priority wins inside, and no two rules have the same one.
        let priority = Priority(u64::from(u32::MAX - entry.priority) << 32 | u64::from(self.added));
        Ok(RuleSpec { priority, action: Action::Match, conditions, family: None, line: None, value: entry.value })
    }
}

/// Returns a field of a table.
///
/// # Safety
/// Its name must be null or end with NUL.
unsafe fn read_field(field: &TableFieldC) -> Result<Field, Failure> {
    // SAFETY: the caller's promise.
    let name = unsafe { guard::name(field.name, "the name of a field") }?;
    let kind = match field.kind {
        FIRSTMATCH_TEST_VALUE => Kind::Exact,
        FIRSTMATCH_TEST_PREFIX => Kind::Prefix,
        FIRSTMATCH_TEST_RANGE => Kind::Range,
        0 | FIRSTMATCH_TEST_MASK => Kind::Mask,
        other => return Err(Failure::invalid(format!("{name} has the unknown kind {other}"))),
    };
    if !(1..=MAX_FIELD_BITS).contains(&field.width) {
        return Err(Failure::invalid(format!("{name} has {} bits, not 1 to {MAX_FIELD_BITS}", field.width)));
    }
    Ok(Field::new(name, field.width, kind, None))
}

/// Makes an empty table over `count` fields, 1 to 64, of different names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_table_new(
    fields: *const TableFieldC,
    count: usize,
    table: *mut *mut TableHandle,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let body = || {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::handle(table) }?;
        if !(1..=MAX_FIELDS).contains(&count) {
            return Err(Failure::invalid(format!("a table has 1 to {MAX_FIELDS} fields, not {count}")));
        }
        // SAFETY: the caller's promise.
        let fields = unsafe { guard::array(fields, count, "fields") }?;
        // SAFETY: the caller's promise.
        let fields: Vec<Field> = fields.iter().map(|field| unsafe { read_field(field) }).collect::<Result<_, _>>()?;
        let is_twice = |index: usize| fields[..index].iter().any(|other| other.name() == fields[index].name());
        if let Some(index) = (0..count).find(|&index| is_twice(index)) {
            return Err(Failure::invalid(format!("two fields are named {}", fields[index].name())));
        }
        out.give(TableValue { rules: RuleSet::new(Schema::new(None, fields)), added: 0 });
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call_with(error, body) }
}

/// Frees a table; null is none. Firewalls that were built from it stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_table_free(table: *mut TableHandle) -> i32 {
    // SAFETY: the caller's promise.
    guard::call(|| unsafe { guard::close(table) })
}

/// Writes the number of bytes of a key: those of each field, in order, without gaps.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_table_key_bytes(table: *mut TableHandle, bytes: *mut usize) -> i32 {
    guard::call(|| {
        // SAFETY: the caller's promise.
        let (table, out) = unsafe { (guard::lease(table)?, Out::new(bytes, "bytes")?) };
        out.set(key_bytes(&table.rules.schemas()[0]));
        Ok(())
    })
}

/// Adds an entry. Its id, which decisions have as the rule, is written to `id` unless that is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_table_add(
    table: *mut TableHandle,
    entry: *const EntryC,
    id: *mut u64,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let body = || {
        // SAFETY: the caller's promise; every bit pattern is valid.
        let (mut table, entry) = unsafe { (guard::lease(table)?, guard::sized(entry, "entry")?) };
        if !id.is_aligned() || entry.key.is_null() != entry.mask.is_null() {
            return Err(Failure::invalid(
                "id is unaligned, or an entry has a key without a mask or a mask without a key",
            ));
        }
        let bytes = if entry.mask.is_null() { 0 } else { key_bytes(&table.rules.schemas()[0]) };
        // SAFETY: the caller's promise.
        let (key, mask, ranges) = unsafe {
            let ranges = guard::array(entry.ranges, entry.range_count, "ranges")?;
            (guard::array(entry.key, bytes, "key")?, guard::array(entry.mask, bytes, "mask")?, ranges)
        };
        let rule = table.rule(&entry, key, mask, ranges)?;
        let next = table.added.checked_add(1).ok_or_else(|| Failure::invalid("there are too many entries"))?;
        let given = table.rules.insert(rule).map_err(firstmatch::Error::from)?;
        table.added = next;
        if !id.is_null() {
            // SAFETY: the caller's promise.
            unsafe { id.write(given.get()) }
        }
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call_with(error, body) }
}

/// Builds a firewall from the entries of a table, which stays as it is. Null options are the defaults.
///
/// Its packets are keys, records of a layout or rows. The verdict is `FIRSTMATCH_MATCH`; without a match it is
/// `FIRSTMATCH_DENY` with the rule 0. Updates change the entries like other rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_firewall_from_table(
    table: *mut TableHandle,
    options: *const OptionsC,
    firewall: *mut *mut FirewallHandle,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let body = || {
        // SAFETY: the caller's promise.
        let (out, table) = unsafe { (Out::handle(firewall)?, guard::lease(table)?) };
        // SAFETY: the caller's promise.
        let builder = unsafe { OptionsC::read(options)?.builder()? };
        let built = builder.values_only(true).build_set(table.rules.clone(), Policy::default())?;
        out.give(built.into());
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call_with(error, body) }
}

/// Makes the layout of keys: every field of a schema, in order, without gaps, in network order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_layout_of_keys(
    firewall: *const FirewallHandle,
    schema: usize,
    layout: *mut *mut LayoutHandle,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let body = || {
        // SAFETY: the caller's promise.
        let (out, firewall) = unsafe { (Out::handle(layout)?, guard::share(firewall)?) };
        let schemas = firewall.firewall.schemas();
        let of = schemas.get(schema).ok_or_else(|| Failure::invalid(format!("there are {} schemas", schemas.len())))?;
        let mut offset = 0;
        let place = |field| {
            let at = Location::network(offset);
            offset += bytes_of(field);
            (field.name(), at)
        };
        let places: Vec<_> = of.fields().iter().map(place).collect();
        out.give(RecordLayout::new(of, &places).map_err(|error| Failure::invalid(error.to_string()))?);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call_with(error, body) }
}
