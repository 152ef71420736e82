//! A grain that gives every type of value back, itself or through another grain of its contract.

use granary_guest::prelude::*;

use contract::{Colour, Everything, Rights, ValuesRef};

type Flat = (u64, Option<char>, Result<f64, u32>, Rights);
type Many = (u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, bool, char, String, Colour, Option<u8>, Rights);

/// The grain. It keeps nothing.
#[grain(interface = "granary-tests:values/values", refs = ["granary-tests:values/values"])]
#[derive(Debug, Default)]
pub struct ValuesGrain;

/// The grain that is meant: `TYPE/KEY`, or a key of this type.
fn other(to: &str) -> Result<ValuesRef, String> {
    match to.split_once('/') {
        Some((grain_type, key)) => Ok(ValuesRef::new(GrainRef::new(grain_type, key))),
        None => ValuesRef::get(to).map_err(|error| error.to_string()),
    }
}

impl contract::Values for ValuesGrain {
    fn whole(&mut self, value: Everything) -> Everything {
        value
    }

    fn flat(
        &mut self,
        number: u64,
        letter: Option<char>,
        outcome: Result<f64, u32>,
        rights: Rights,
    ) -> (u64, Option<char>, Result<f64, u32>, Rights) {
        (number, letter, outcome, rights)
    }

    fn many(
        &mut self,
        a: u8,
        b: i8,
        c: u16,
        d: i16,
        e: u32,
        f: i32,
        g: u64,
        h: i64,
        i: f32,
        j: f64,
        k: bool,
        l: char,
        m: String,
        n: Colour,
        o: Option<u8>,
        p: Rights,
    ) -> Many {
        (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
    }

    fn nothing(&mut self) {}

    fn relay(&mut self, to: String, value: Everything) -> Result<Everything, String> {
        other(&to)?.nothing().map_err(|error| error.to_string())?;
        other(&to)?.whole(&value).map_err(|error| error.to_string())
    }

    fn relay_flat(
        &mut self,
        to: String,
        number: u64,
        letter: Option<char>,
        outcome: Result<f64, u32>,
        rights: Rights,
    ) -> Result<Flat, String> {
        other(&to)?.flat(number, letter, outcome, rights).map_err(|error| error.to_string())
    }

    fn relay_many(&mut self, to: String, number: u64, text: String) -> Result<Many, String> {
        let (colour, rights) = (Colour::Blue, Rights::READ | Rights::SHARE);
        let small = i32::MIN;
        other(&to)?
            .many(
                255,
                -128,
                65_535,
                -32_768,
                u32::MAX,
                small,
                number,
                i64::MIN,
                0.5,
                -0.25,
                true,
                '\u{10ffff}',
                &text,
                colour,
                Some(0),
                rights,
            )
            .map_err(|error| error.to_string())
    }
}
