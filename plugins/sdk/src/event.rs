//! Event words and attributes, decoded. The layout is in `wit/v0.1/eviction.wit`.

use crate::Slot;

/// What happened to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    Access,
    Insert,
    Remove,
    Miss,
    Restore,
    Resize,
    Pin,
    Unpin,
    VictimRefused,
    Update,
    /// An op of a later host: to be ignored.
    Other(u8),
}

/// By number, as far as an event word has room for one: a load is decoded sooner than a branch is taken.
const OPS: [Op; 16] = [
    Op::Access,
    Op::Insert,
    Op::Remove,
    Op::Miss,
    Op::Restore,
    Op::Resize,
    Op::Pin,
    Op::Unpin,
    Op::VictimRefused,
    Op::Update,
    Op::Other(10),
    Op::Other(11),
    Op::Other(12),
    Op::Other(13),
    Op::Other(14),
    Op::Other(15),
];

impl Op {
    /// The op with this number.
    #[inline]
    pub fn from_number(number: u8) -> Self {
        OPS.get(usize::from(number)).copied().unwrap_or(Op::Other(number))
    }

    /// The op's number.
    pub fn number(self) -> u8 {
        match self {
            Op::Access => 0,
            Op::Insert => 1,
            Op::Remove => 2,
            Op::Miss => 3,
            Op::Restore => 4,
            Op::Resize => 5,
            Op::Pin => 6,
            Op::Unpin => 7,
            Op::VictimRefused => 8,
            Op::Update => 9,
            Op::Other(number) => number,
        }
    }

    /// Whether three attribute words belong to an event of this op.
    #[inline]
    pub fn has_attributes(self) -> bool {
        matches!(self, Op::Insert | Op::Miss | Op::Restore)
    }
}

/// One event word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event(pub u64);

impl Event {
    /// An event without kind, flags and time, as tests and the native harness send them.
    pub fn new(slot: Slot, op: Op) -> Self {
        Event(u64::from(slot) | u64::from(op.number()) << 32)
    }

    #[inline]
    pub fn slot(self) -> Slot {
        self.0 as u32
    }

    #[inline]
    pub fn op(self) -> Op {
        Op::from_number((self.0 >> 32 & 0xF) as u8)
    }

    /// 0 row, 1 index page, …; see the WIT.
    #[inline]
    pub fn kind(self) -> u8 {
        (self.0 >> 36 & 0xF) as u8
    }

    /// Bit 0 scan, bit 1 reversed, …; see the WIT.
    #[inline]
    pub fn flags(self) -> u8 {
        (self.0 >> 40) as u8
    }

    /// Ticks of 1/16 ms since the previous event of the batch, saturating.
    #[inline]
    pub fn ticks(self) -> u16 {
        (self.0 >> 48) as u16
    }
}

/// What is known of an entry when it comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes(pub [u64; 3]);

impl Attributes {
    /// Equal for the same entry when it returns.
    #[inline]
    pub fn fingerprint(&self) -> u64 {
        self.0[0]
    }

    #[inline]
    pub fn size_bytes(&self) -> u32 {
        self.0[1] as u32
    }

    /// Expected time to load the entry again, µs.
    #[inline]
    pub fn cost_us(&self) -> u32 {
        (self.0[1] >> 32) as u32
    }

    #[inline]
    pub fn table(&self) -> u32 {
        self.0[2] as u32
    }

    #[inline]
    pub fn class(&self) -> u16 {
        (self.0[2] >> 32) as u16
    }

    #[inline]
    pub fn level(&self) -> u8 {
        (self.0[2] >> 48) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_contract_puts_them() {
        let event = Event(0xABCD_7E59_0000_1234);
        assert_eq!(event.slot(), 0x1234);
        assert_eq!(event.op(), Op::Update);
        assert_eq!((event.kind(), event.flags(), event.ticks()), (5, 0x7E, 0xABCD));
        let attributes = Attributes([7, 0x0000_0011_0000_0022, 0x0005_0004_0000_0003]);
        assert_eq!(attributes.fingerprint(), 7);
        assert_eq!((attributes.size_bytes(), attributes.cost_us()), (0x22, 0x11));
        assert_eq!((attributes.table(), attributes.class(), attributes.level()), (3, 4, 5));
    }

    #[test]
    fn numbers_of_ops_go_both_ways() {
        for number in 0..16 {
            assert_eq!(Op::from_number(number).number(), number);
        }
    }
}
