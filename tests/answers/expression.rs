//! Random expressions and conditions.

use super::ast::{Binary, Expr, Function, Part, Unary};
use super::generate::{Field, Generator, constant};
use super::value::{Type, Value};

pub const COMPARISONS: [Binary; 6] = [
    Binary::Equal,
    Binary::Differs,
    Binary::Less,
    Binary::LessOrEqual,
    Binary::Greater,
    Binary::GreaterOrEqual,
];

/// What an expression may be asked for: types that SQL takes for one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Bool,
    Integer,
    Floating,
    Decimal,
    Text,
    Blob,
    Date,
    Time,
    Timestamp,
    Uuid,
    Collection,
}

pub fn class(ty: Type) -> Class {
    match ty {
        Type::Bool => Class::Bool,
        Type::TinyInt | Type::SmallInt | Type::Int | Type::BigInt => Class::Integer,
        Type::Float | Type::Double => Class::Floating,
        Type::Decimal(..) => Class::Decimal,
        Type::Text => Class::Text,
        Type::Blob => Class::Blob,
        Type::Date => Class::Date,
        Type::Time => Class::Time,
        Type::Timestamp => Class::Timestamp,
        Type::Uuid => Class::Uuid,
        Type::Set | Type::Map => Class::Collection,
    }
}

/// A type of the class for constants.
fn widest(class: Class) -> Type {
    match class {
        Class::Bool => Type::Bool,
        Class::Integer => Type::BigInt,
        Class::Floating => Type::Double,
        Class::Decimal => Type::Decimal(10, 2),
        Class::Text => Type::Text,
        Class::Blob => Type::Blob,
        Class::Date => Type::Date,
        Class::Time => Type::Time,
        Class::Timestamp => Type::Timestamp,
        Class::Uuid => Type::Uuid,
        Class::Collection => Type::Set,
    }
}

fn rank(ty: Type) -> usize {
    let order = [Type::TinyInt, Type::SmallInt, Type::Int, Type::BigInt];
    order.iter().position(|other| *other == ty).unwrap_or(order.len())
}

fn wider(a: Type, b: Type) -> Type {
    match (a, b) {
        (Type::Float, Type::Float) => Type::Float,
        (a, b) if a.is_integer() && b.is_integer() => {
            if rank(a) >= rank(b) {
                a
            } else {
                b
            }
        }
        (Type::Decimal(_, a), Type::Decimal(_, b)) => Type::Decimal(38, a.max(b)),
        (a, _) if a.is_floating() => Type::Double,
        (a, _) => a,
    }
}

fn boxed(expr: Expr) -> Box<Expr> {
    Box::new(expr)
}

impl Generator {
    /// A column of a class, if there is one.
    pub fn column(&mut self, fields: &[Field], wanted: Class) -> Option<(Expr, Type)> {
        let of_class: Vec<&Field> =
            fields.iter().filter(|field| class(field.ty) == wanted).collect();
        let field = of_class.get(self.below(of_class.len().max(1)))?;
        Some((Expr::Column(field.table.clone(), field.name.clone()), field.ty))
    }

    /// A constant of a class, written plainly: its type is certain.
    pub fn sure_constant(&mut self, wanted: Class) -> (Expr, Type) {
        let ty = widest(wanted);
        let mut value = self.value(ty, true);
        // Few constants are such that nothing can be added to them.
        while matches!(value, Value::Int(int) if int.abs() > 1 << 60) && self.chance(80) {
            value = self.value(ty, true);
        }
        let expr = constant(value, ty);
        match wanted {
            // Alone such a number may be taken for another type.
            Class::Floating | Class::Decimal => (Expr::Cast(boxed(expr), ty, false), ty),
            _ => (expr, ty),
        }
    }

    /// An expression of a class and its type.
    pub fn expr(&mut self, fields: &[Field], wanted: Class, depth: usize) -> (Expr, Type) {
        if depth == 0 || self.chance(35) {
            if self.chance(85)
                && let Some(column) = self.column(fields, wanted)
            {
                return column;
            }
            return self.sure_constant(wanted);
        }
        match self.below(8) {
            0 => self.case(fields, wanted, depth - 1),
            1 => {
                let function =
                    self.pick(&[Function::Coalesce, Function::Greatest, Function::Least]);
                let ((a, a_ty), (b, b_ty)) =
                    (self.expr(fields, wanted, depth - 1), self.expr(fields, wanted, depth - 1));
                match (wanted, function) {
                    // Which of the zeros is the greatest is nobody's business.
                    (Class::Floating | Class::Blob | Class::Uuid, _) => (a, a_ty),
                    _ => (Expr::Call(function, vec![a, b]), wider(a_ty, b_ty)),
                }
            }
            2 => {
                let (a, ty) = self.expr(fields, wanted, depth - 1);
                let (b, _) = self.expr(fields, wanted, depth - 1);
                (Expr::Call(Function::NullIf, vec![a, b]), ty)
            }
            _ => self.of_class(fields, wanted, depth - 1),
        }
    }

    fn case(&mut self, fields: &[Field], wanted: Class, depth: usize) -> (Expr, Type) {
        let (value, when_class) = match self.chance(30) {
            true => {
                let field = self.pick(fields);
                let of = class(field.ty);
                (Some(boxed(Expr::Column(field.table, field.name))), Some(of))
            }
            false => (None, None),
        };
        let mut ty = None;
        let arms = (0..1 + self.below(2))
            .map(|_| {
                let when = match when_class {
                    Some(of) => self.sure_constant(of).0,
                    None => self.condition(fields, depth.min(1)),
                };
                let (then, own) = self.expr(fields, wanted, depth);
                ty = Some(ty.map_or(own, |ty| wider(ty, own)));
                (when, then)
            })
            .collect();
        let otherwise = self.chance(70).then(|| {
            let (otherwise, own) = self.expr(fields, wanted, depth);
            ty = ty.map(|ty| wider(ty, own));
            boxed(otherwise)
        });
        (Expr::Case { value, arms, otherwise }, ty.expect("a CASE has an arm"))
    }

    /// An operator or function that gives the class.
    fn of_class(&mut self, fields: &[Field], wanted: Class, depth: usize) -> (Expr, Type) {
        match wanted {
            Class::Bool => (self.condition(fields, depth), Type::Bool),
            Class::Integer => self.integer_expr(fields, depth),
            Class::Floating => self.floating_expr(fields, depth),
            Class::Decimal => {
                let ((a, a_ty), (b, b_ty)) =
                    (self.expr(fields, wanted, depth.min(1)), self.expr(fields, wanted, 0));
                let binary = self.pick(&[Binary::Add, Binary::Subtract]);
                let ty = wider(a_ty, b_ty);
                (Expr::Binary(binary, boxed(a), boxed(b), ty), ty)
            }
            Class::Text => (self.text_expr(fields, depth), Type::Text),
            Class::Date => {
                let (timestamp, _) = self.expr(fields, Class::Timestamp, depth);
                (Expr::Cast(boxed(timestamp), Type::Date, false), Type::Date)
            }
            Class::Timestamp => {
                let functions =
                    [Function::TruncateToHour, Function::TruncateToDay, Function::TruncateToMonth];
                match self.chance(30) {
                    true => {
                        let (date, _) = self.expr(fields, Class::Date, depth);
                        (Expr::Cast(boxed(date), Type::Timestamp, false), Type::Timestamp)
                    }
                    false => {
                        let (timestamp, ty) = self.expr(fields, Class::Timestamp, depth);
                        (Expr::Call(self.pick(&functions), vec![timestamp]), ty)
                    }
                }
            }
            Class::Blob | Class::Time | Class::Uuid | Class::Collection => {
                self.expr(fields, wanted, 0)
            }
        }
    }

    fn integer_expr(&mut self, fields: &[Field], depth: usize) -> (Expr, Type) {
        match self.below(8) {
            0 => {
                let (text, _) = self.expr(fields, Class::Text, depth);
                (Expr::Call(Function::Length, vec![text]), Type::Int)
            }
            1 => {
                let from = self.pick(&[Class::Timestamp, Class::Date]);
                // Only columns are instants: other timestamps are what a clock shows somewhere.
                let column = self.column(fields, from);
                let is_column = column.is_some();
                let (time, _) = column.unwrap_or_else(|| self.expr(fields, from, depth));
                let parts =
                    [Part::Year, Part::Month, Part::Day, Part::Hour, Part::Minute, Part::DayOfWeek];
                let (part, zone) = match from {
                    Class::Date => (self.pick(&parts[..3]), "UTC"),
                    _ => {
                        let zones = ["UTC", "+02:00", "-05:30", "Europe/Berlin"];
                        let zones = if is_column { &zones[..] } else { &zones[..1] };
                        (self.pick(&parts), self.pick(zones))
                    }
                };
                (Expr::Part(part, boxed(time), zone), Type::Int)
            }
            2 => {
                let ty = self.pick(&[Type::Int, Type::BigInt, Type::SmallInt]);
                let from = self.pick(&[Class::Integer, Class::Bool, Class::Floating, Class::Text]);
                let (inner, _) = self.expr(fields, from, depth);
                (Expr::Cast(boxed(inner), ty, true), ty)
            }
            3 => {
                let (inner, ty) = self.expr(fields, Class::Integer, depth);
                let (function, ty) = (Function::Abs, ty);
                (Expr::Call(function, vec![inner]), ty)
            }
            4 => {
                let (inner, ty) = self.expr(fields, Class::Integer, depth);
                (Expr::Unary(Unary::Minus, boxed(inner)), ty)
            }
            5 => {
                let (inner, _) = self.expr(fields, Class::Integer, depth);
                let binary = self.pick(&[Binary::Divide, Binary::Remainder]);
                let by = self.pick(&[2, 3, -3, 7]);
                let by = constant(Value::Int(by), Type::BigInt);
                (Expr::Binary(binary, boxed(inner), boxed(by), Type::BigInt), Type::BigInt)
            }
            _ => {
                let (a, a_ty) = self.expr(fields, Class::Integer, depth);
                let (b, b_ty) = self.expr(fields, Class::Integer, depth);
                let binary = self.pick(&[Binary::Add, Binary::Subtract, Binary::Multiply]);
                let ty = wider(a_ty, b_ty);
                (Expr::Binary(binary, boxed(a), boxed(b), ty), ty)
            }
        }
    }

    fn floating_expr(&mut self, fields: &[Field], depth: usize) -> (Expr, Type) {
        match self.below(4) {
            0 => {
                let functions = [Function::Abs, Function::Floor, Function::Ceil, Function::Round];
                let (inner, ty) = self.expr(fields, Class::Floating, depth);
                (Expr::Call(self.pick(&functions), vec![inner]), ty)
            }
            1 => {
                let from = self.pick(&[Class::Integer, Class::Decimal]);
                let (inner, _) = self.expr(fields, from, depth);
                (Expr::Cast(boxed(inner), Type::Double, false), Type::Double)
            }
            _ => {
                // Not of infinities: what they make is no NaN that a column holds.
                let double = |generator: &mut Self| {
                    let (int, _) = generator.expr(fields, Class::Integer, depth.min(1));
                    boxed(Expr::Cast(boxed(int), Type::Double, false))
                };
                let (a, b) = (double(self), double(self));
                let binary = self.pick(&[Binary::Add, Binary::Subtract, Binary::Multiply]);
                (Expr::Binary(binary, a, b, Type::Double), Type::Double)
            }
        }
    }

    fn text_expr(&mut self, fields: &[Field], depth: usize) -> Expr {
        let text = |generator: &mut Self| generator.expr(fields, Class::Text, depth).0;
        let number = |generator: &mut Self, least: i128| {
            constant(Value::Int(least + generator.below(4) as i128), Type::BigInt)
        };
        match self.below(8) {
            0 => {
                let function = self.pick(&[
                    Function::Upper,
                    Function::Lower,
                    Function::Trim,
                    Function::Reverse,
                ]);
                Expr::Call(function, vec![text(self)])
            }
            1 => {
                let arguments = vec![text(self), number(self, 0), number(self, 0)];
                Expr::Call(Function::Substring, arguments)
            }
            2 => {
                let function = self.pick(&[Function::Left, Function::Right]);
                Expr::Call(function, vec![text(self), number(self, -1)])
            }
            3 => Expr::Call(Function::Concat, vec![text(self), text(self)]),
            4 => {
                let arguments = vec![
                    text(self),
                    constant(Value::Text("b".into()), Type::Text),
                    constant(Value::Text("éé".into()), Type::Text),
                ];
                Expr::Call(Function::Replace, arguments)
            }
            5 => {
                let from = self.pick(&[Class::Integer, Class::Bool, Class::Date, Class::Decimal]);
                let (inner, _) = self.expr(fields, from, depth.min(1));
                Expr::Cast(boxed(inner), Type::Text, false)
            }
            _ => {
                let (a, b) = (text(self), text(self));
                Expr::Binary(Binary::Append, boxed(a), boxed(b), Type::Text)
            }
        }
    }

    /// A condition.
    pub fn condition(&mut self, fields: &[Field], depth: usize) -> Expr {
        if depth > 0 && self.chance(40) {
            let binary = self.pick(&[Binary::And, Binary::And, Binary::Or]);
            let left = self.condition(fields, depth - 1);
            let right = self.condition(fields, depth - 1);
            return Expr::Binary(binary, boxed(left), boxed(right), Type::Bool);
        }
        let field = self.pick(fields);
        let own = (Expr::Column(field.table.clone(), field.name.clone()), field.ty);
        // Where no column is, a UUID is a text, and capitals count.
        let is_uuid = field.ty == Type::Uuid;
        let (subject, ty) = if depth > 0 && !is_uuid && self.chance(30) {
            self.expr(fields, class(field.ty), depth)
        } else {
            own
        };
        match self.below(21) {
            0..8 => self.comparison(fields, subject, ty, depth),
            8..11 => self.in_list(subject, ty),
            11..13 => {
                let (low, high) = (self.literal(ty), self.literal(ty));
                let (value, low, high) = (boxed(subject), boxed(low), boxed(high));
                Expr::Between { value, low, high, negated: self.chance(20) }
            }
            13 => {
                let unary = self.pick(&[Unary::IsNull, Unary::IsNotNull]);
                Expr::Unary(unary, boxed(subject))
            }
            14 => {
                let inner = self.condition(fields, 0);
                Expr::Unary(Unary::Not, boxed(inner))
            }
            15 => {
                let unary = self.pick(&[
                    Unary::IsTrue,
                    Unary::IsNotTrue,
                    Unary::IsFalse,
                    Unary::IsNotFalse,
                    Unary::IsUnknown,
                    Unary::IsNotUnknown,
                ]);
                let inner = self.condition(fields, 0);
                Expr::Unary(unary, boxed(inner))
            }
            16 if self.features.is_distinct => {
                let binary = self.pick(&[Binary::IsDistinct, Binary::IsNotDistinct]);
                let other = self.literal(ty);
                Expr::Binary(binary, boxed(subject), boxed(other), Type::Bool)
            }
            17 => self.like(fields, depth),
            18 if self.features.rows => self.rows(fields),
            19 => self.case(fields, Class::Bool, depth.min(1)).0,
            _ => match self.column(fields, Class::Bool) {
                Some((column, _)) => column,
                None => self.comparison(fields, subject, ty, depth),
            },
        }
    }

    fn comparison(&mut self, fields: &[Field], subject: Expr, ty: Type, depth: usize) -> Expr {
        let binary = match self.chance(40) {
            true => Binary::Equal,
            false => self.pick(&COMPARISONS),
        };
        let other = match self.chance(70) {
            true => self.literal(ty),
            false => self.expr(fields, class(ty), depth.min(1)).0,
        };
        let (left, right) = if self.chance(15) { (other, subject) } else { (subject, other) };
        Expr::Binary(binary, boxed(left), boxed(right), Type::Bool)
    }

    /// A set or a map that is compared with constants.
    pub fn collection_condition(&mut self, field: &Field) -> Expr {
        let column = Expr::Column(field.table.clone(), field.name.clone());
        match self.below(6) {
            0 => self.in_list(column, field.ty),
            1 => {
                let binary = self.pick(&[Binary::IsDistinct, Binary::IsNotDistinct]);
                let other = self.literal(field.ty);
                Expr::Binary(binary, boxed(column), boxed(other), Type::Bool)
            }
            2 => {
                let arm = |generator: &mut Self| {
                    let when = generator.literal(field.ty);
                    (when, constant(Value::Bool(generator.chance(50)), Type::Bool))
                };
                let arms = vec![arm(self), arm(self)];
                Expr::Case { value: Some(boxed(column)), arms, otherwise: None }
            }
            3 => Expr::Unary(self.pick(&[Unary::IsNull, Unary::IsNotNull]), boxed(column)),
            _ => {
                let binary = self.pick(&[Binary::Equal, Binary::Equal, Binary::Differs]);
                let other = self.literal(field.ty);
                let (left, right) = if self.chance(20) { (other, column) } else { (column, other) };
                Expr::Binary(binary, boxed(left), boxed(right), Type::Bool)
            }
        }
    }

    pub fn in_list(&mut self, subject: Expr, ty: Type) -> Expr {
        let list = (0..1 + self.below(6)).map(|_| self.literal(ty)).collect();
        Expr::In { value: boxed(subject), list, negated: self.chance(20) }
    }

    fn like(&mut self, fields: &[Field], depth: usize) -> Expr {
        if self.chance(25) {
            let (text, _) = self.expr(fields, Class::Text, depth);
            let prefix = self.pick(&["a", "", "é", "A"]);
            let prefix = constant(Value::Text(prefix.into()), Type::Text);
            if self.chance(50) {
                return Expr::Call(Function::StartsWith, vec![text, prefix]);
            }
            let zero = constant(Value::Int(0), Type::BigInt);
            let position = Expr::Call(Function::Position, vec![text, prefix]);
            return Expr::Binary(Binary::Greater, boxed(position), boxed(zero), Type::Bool);
        }
        let (value, _) = self.expr(fields, Class::Text, depth);
        let patterns = ["a%", "%b", "_", "%", "a_c", "", "%é%", "A", "%A%b", "__"];
        let pattern = self.pick(&patterns).to_owned();
        let (negated, ignore_case) = (self.chance(20), self.chance(30));
        Expr::Like { value: boxed(value), pattern, negated, ignore_case }
    }

    /// `(a, b) < (1, 2)` and `(a, b) IN ((1, 2), (3, 4))`.
    fn rows(&mut self, fields: &[Field]) -> Expr {
        let of: Vec<Field> = (0..2).map(|_| self.pick(fields)).collect();
        let row: Vec<Expr> =
            of.iter().map(|field| Expr::Column(field.table.clone(), field.name.clone())).collect();
        let other = |generator: &mut Self| -> Vec<Expr> {
            of.iter().map(|field| generator.literal(field.ty)).collect()
        };
        if self.chance(50) {
            let binary = self.pick(&COMPARISONS);
            return Expr::Row(binary, row, other(self));
        }
        let list = (0..1 + self.below(4)).map(|_| other(self)).collect();
        Expr::InRows { row, list, negated: self.chance(20) }
    }
}
