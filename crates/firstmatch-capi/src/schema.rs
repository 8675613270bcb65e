//! Fields of the rules, and layouts of the caller's own records.

use std::ffi::c_char;

use firstmatch::core::{Location, RecordLayout, Schema};

use crate::error::{ErrorHandle, call_with};
use crate::firewall::FirewallHandle;
use crate::guard::{self, Handle, Out};
use crate::numbers;
use crate::status::Failure;

/// Flag of a place: the most significant byte comes first, as in packets. Otherwise it has this machine's byte order.
pub const FIRSTMATCH_NETWORK_ORDER: u32 = 1;

/// Schema: the fields that the rules of one family test.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SchemaC {
    /// Size of this struct in bytes.
    pub size: u32,
    /// Family of the packets: `FIRSTMATCH_IPV4`, `FIRSTMATCH_IPV6` or `FIRSTMATCH_NO_FAMILY`.
    pub family: u32,
    /// Number of fields.
    pub fields: u32,
    /// Number of key words of a packet.
    pub words: u32,
    /// Number of words from one row to the next: `words`, rounded up to a multiple of 4.
    pub stride: u32,
    /// 0.
    pub reserved: u32,
}

/// Field of a schema.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FieldC {
    /// Size of this struct in bytes.
    pub size: u32,
    /// Width in bits.
    pub width: u32,
    /// 1 if a packet may lack the field, otherwise 0.
    pub is_optional: u32,
    /// Index of its first key word; the most significant word comes first.
    pub first_word: u32,
    /// Number of its key words.
    pub words: u32,
    /// Value of the first word where a packet lacks the field; then its other words are 0.
    pub absent: u32,
    /// Name, which ends with NUL and is valid as long as the firewall.
    pub name: *const c_char,
}

/// Place of a field in a record, in whole bytes: as many as its width needs.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PlaceC {
    /// Name of the field, which ends with NUL.
    pub field: *const c_char,
    /// Offset of its first byte.
    pub offset: usize,
    /// 0 or `FIRSTMATCH_NETWORK_ORDER`.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
}

/// Layout of the caller's own records. Any number of threads may use it at once.
#[derive(Debug)]
pub struct LayoutHandle(());

impl Handle for LayoutHandle {
    const MAGIC: u64 = 0x6669_7273_744C_4159;
    const NAME: &'static str = "the layout";
    type Value = RecordLayout;
}

fn at(schemas: &[Schema], index: usize) -> Result<&Schema, Failure> {
    schemas.get(index).ok_or_else(|| Failure::invalid(format!("there are {} schemas", schemas.len())))
}

/// Writes the number of schemas: one, or one a family.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_firewall_schema_count(firewall: *const FirewallHandle, count: *mut usize) -> i32 {
    guard::call(|| {
        // SAFETY: the caller's promise.
        let (firewall, out) = unsafe { (guard::share(firewall)?, Out::new(count, "count")?) };
        out.set(firewall.firewall.schemas().len());
        Ok(())
    })
}

/// Writes what a schema has. `size` is that of the caller's struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_firewall_schema(
    firewall: *const FirewallHandle,
    index: usize,
    schema: *mut SchemaC,
    size: usize,
) -> i32 {
    guard::call(|| {
        // SAFETY: the caller's promise.
        let firewall = unsafe { guard::share(firewall) }?;
        let schemas = firewall.firewall.schemas();
        let found = at(&schemas, index)?;
        let value = SchemaC {
            size: size_of::<SchemaC>() as u32,
            family: numbers::family(found.family()),
            fields: found.fields().len() as u32,
            words: found.words().len() as u32,
            stride: found.stride() as u32,
            reserved: 0,
        };
        // SAFETY: the caller's promise.
        unsafe { guard::init(schema, size, &value, "schema") }
    })
}

/// Writes a field of a schema. `size` is that of the caller's struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_firewall_field(
    firewall: *const FirewallHandle,
    schema: usize,
    index: usize,
    field: *mut FieldC,
    size: usize,
) -> i32 {
    guard::call(|| {
        // SAFETY: the caller's promise.
        let firewall = unsafe { guard::share(firewall) }?;
        let schemas = firewall.firewall.schemas();
        let found = at(&schemas, schema)?;
        let Some(of) = found.fields().get(index) else {
            return Err(Failure::invalid(format!("there are {} fields", found.fields().len())));
        };
        let words = found.words_of(index);
        let value = FieldC {
            size: size_of::<FieldC>() as u32,
            width: of.width(),
            is_optional: u32::from(of.is_optional()),
            first_word: words.start as u32,
            words: words.len() as u32,
            absent: found.words()[words.start].absent.unwrap_or(0),
            name: firewall.name(of.name()),
        };
        // SAFETY: the caller's promise.
        unsafe { guard::init(field, size, &value, "field") }
    })
}

/// Makes the layout of records with every field of a schema, by name.
///
/// A field that only packets of some protocols have is absent from the others, whatever the record says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_layout_new(
    firewall: *const FirewallHandle,
    schema: usize,
    places: *const PlaceC,
    count: usize,
    layout: *mut *mut LayoutHandle,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let body = || {
        // SAFETY: the caller's promise.
        let (out, firewall) = unsafe { (Out::handle(layout)?, guard::share(firewall)?) };
        // SAFETY: the caller's promise.
        let places = unsafe { guard::array(places, count, "places") }?;
        let place = |place: &PlaceC| {
            if place.flags & !FIRSTMATCH_NETWORK_ORDER != 0 || place.reserved != 0 {
                return Err(Failure::invalid("a place has unknown flags, or its reserved member is not 0"));
            }
            // SAFETY: the caller's promise.
            let name = unsafe { guard::name(place.field, "the name of a field") }?;
            let is_network = place.flags == FIRSTMATCH_NETWORK_ORDER;
            Ok((name, Location { offset: place.offset, is_network }))
        };
        let places: Vec<_> = places.iter().map(place).collect::<Result<_, _>>()?;
        let made = RecordLayout::new(at(&firewall.firewall.schemas(), schema)?, &places);
        out.give(made.map_err(|error| Failure::invalid(error.to_string()))?);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call_with(error, body) }
}

/// Writes the number of bytes of a record that are read: up to the end of its last field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_layout_bytes(layout: *const LayoutHandle, bytes: *mut usize) -> i32 {
    guard::call(|| {
        // SAFETY: the caller's promise.
        let (layout, out) = unsafe { (guard::share(layout)?, Out::new(bytes, "bytes")?) };
        out.set(layout.least_bytes());
        Ok(())
    })
}

/// Frees a layout; null is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_layout_free(layout: *mut LayoutHandle) -> i32 {
    // SAFETY: the caller's promise.
    guard::call(|| unsafe { guard::close(layout) })
}
