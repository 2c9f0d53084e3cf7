//! Random queries over tables.

use super::ast::*;
use super::expression::{COMPARISONS, Class, class};
use super::generate::{Field, Generator, constant};
use super::table::{Kind, Table};
use super::value::{Type, Value};

/// What a query may select from.
struct From {
    source: Source,
    fields: Vec<Field>,
    /// Columns that together are different in every row; empty where none are known.
    key: Vec<Expr>,
    /// Conditions on keys, as a person would write them.
    condition: Option<Expr>,
    /// Columns of sets and maps, which are none of the fields.
    collections: Vec<Field>,
}

fn boxed(expr: Expr) -> Box<Expr> {
    Box::new(expr)
}

fn both(left: Option<Expr>, right: Option<Expr>) -> Option<Expr> {
    match (left, right) {
        (Some(left), Some(right)) => {
            Some(Expr::Binary(Binary::And, boxed(left), boxed(right), Type::Bool))
        }
        (left, right) => left.or(right),
    }
}

fn column(field: &Field) -> Expr {
    Expr::Column(field.table.clone(), field.name.clone())
}

impl Generator {
    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("q{}", self.aliases)
    }

    /// A query of any shape. Only its own LIMIT may leave open which rows come.
    pub fn query(&mut self, tables: &[Table]) -> Query {
        match self.below(100) {
            0..30 => self.page(tables),
            30..45 => self.plain(tables, 2),
            45..60 => self.grouped(tables),
            60..70 => self.windowed(tables),
            70..82 => self.set(tables),
            82..86 => self.values(),
            86..90 => self.with(tables),
            _ => self.distinct(tables),
        }
    }

    /// Rows of a few partitions, in clustering order or another, and only the first of them.
    fn page(&mut self, tables: &[Table]) -> Query {
        let from = self.table(tables);
        let residual = self.chance(30).then(|| self.condition(&from.fields, 1));
        let condition = both(from.condition.clone(), residual);
        let items = self.items(&from.fields, 0);
        let mut query =
            Query::of(Select { items, source: Some(from.source), condition, ..Select::default() });
        if self.chance(80) {
            let keys = from.key.len();
            let descending = self.chance(50);
            // The table's own order, or the reverse of it, or neither.
            let skip = if self.chance(50) { 0 } else { self.below(keys) };
            query.order = (from.key.into_iter().skip(skip).enumerate())
                .map(|(at, expr)| {
                    let mixed = at > 0 && self.chance(25);
                    self.order(expr, descending != mixed)
                })
                .collect();
        }
        self.limit(&mut query, 60);
        query
    }

    /// A query without groups, order and limit, and the fields of its source.
    fn ungrouped(&mut self, tables: &[Table], depth: usize, distinct: bool) -> (Query, Vec<Field>) {
        let from = self.from(tables, depth);
        let condition = self.filter(tables, &from);
        let mut items = self.items(&from.fields, if distinct { 1 } else { 2 });
        if !distinct && !from.collections.is_empty() && self.chance(20) {
            let field = self.pick(&from.collections);
            items.push((column(&field), self.result_name(items.len())));
        }
        let query = Query::of(Select {
            distinct,
            items,
            source: Some(from.source),
            condition,
            ..Select::default()
        });
        (query, from.fields)
    }

    /// Anything without groups over a source with `depth` joins or subqueries.
    fn plain(&mut self, tables: &[Table], depth: usize) -> Query {
        let (mut query, fields) = self.ungrouped(tables, depth, false);
        if self.chance(50) {
            query.order = (0..1 + self.below(3))
                .map(|_| {
                    let field = self.pick(&fields);
                    // Of computed keys some are refused ("does not satisfy order requirements").
                    let expr = column(&field);
                    let descending = self.chance(50);
                    self.order(expr, descending)
                })
                .collect();
        }
        self.limit(&mut query, 40);
        query
    }

    fn order(&mut self, expr: Expr, descending: bool) -> Order {
        let nulls_first = self.chance(20).then(|| self.chance(50));
        Order { expr, descending, nulls_first }
    }

    fn limit(&mut self, query: &mut Query, percent: u64) {
        if self.features.limits && self.chance(percent) {
            query.limit = Some(self.below(8));
            if self.chance(20) {
                query.offset = self.below(6);
            }
        }
    }

    fn items(&mut self, fields: &[Field], depth: usize) -> Vec<(Expr, String)> {
        let mut items: Vec<(Expr, String)> = Vec::new();
        for at in 0..1 + self.below(4) {
            let field = self.pick(fields);
            let expr = match depth > 0 && self.chance(50) {
                true => self.expr(fields, class(field.ty), depth).0,
                false => column(&field),
            };
            let is_new = |wanted: &String| items.iter().all(|(_, name)| name != wanted);
            let name = match &expr {
                Expr::Column(_, name) if is_new(name) && self.chance(60) => name.clone(),
                _ => self.result_name(at),
            };
            items.push((expr, name));
        }
        items
    }

    /// A name of a column of a result, which no other query of the statement has.
    fn result_name(&mut self, at: usize) -> String {
        self.aliases += 1;
        format!("r{at}_{}", self.aliases)
    }

    /// A condition over a source, perhaps with a subquery.
    fn filter(&mut self, tables: &[Table], from: &From) -> Option<Expr> {
        let keys = self.chance(40).then(|| from.condition.clone()).flatten();
        let other = match self.below(100) {
            0..25 => None,
            25..80 => Some(self.condition(&from.fields, 2)),
            _ => Some(self.subquery_condition(tables, &from.fields)),
        };
        let collection = match self.chance(40) {
            true if !from.collections.is_empty() => {
                let field = self.pick(&from.collections);
                Some(self.collection_condition(&field))
            }
            _ => None,
        };
        both(both(keys, other), collection)
    }

    fn subquery_condition(&mut self, tables: &[Table], fields: &[Field]) -> Expr {
        let field = self.pick(fields);
        // A name within hides the same name without.
        let form = self.below(4);
        let alias = match form {
            0 | 3 if self.chance(40) => field.table.clone(),
            _ => self.alias(),
        };
        let inner = self.table_as(tables, alias);
        let of_class: Vec<&Field> =
            inner.fields.iter().filter(|other| class(other.ty) == class(field.ty)).collect();
        let Some(inner_field) = of_class.get(self.below(of_class.len().max(1))).copied() else {
            return self.condition(fields, 1);
        };
        let inner_column = column(inner_field);
        let keys = self.chance(50).then(|| inner.condition.clone()).flatten();
        let select = |item: Expr, condition| {
            Query::of(Select {
                items: vec![(item, "x".into())],
                source: Some(inner.source.clone()),
                condition,
                ..Select::default()
            })
        };
        match form {
            0 => Expr::InQuery {
                row: vec![column(&field)],
                query: Box::new(select(inner_column, keys)),
                negated: self.chance(35),
            },
            3 => Expr::Every {
                value: boxed(column(&field)),
                binary: self.pick(&COMPARISONS),
                query: Box::new(select(inner_column, keys)),
                is_all: self.chance(50),
            },
            1 => {
                let outer = column(&field);
                let is_equal =
                    Expr::Binary(Binary::Equal, boxed(inner_column), boxed(outer), Type::Bool);
                let one = constant(Value::Int(1), Type::BigInt);
                Expr::Exists(Box::new(select(one, both(Some(is_equal), keys))), self.chance(40))
            }
            _ => {
                let summary = self.pick(&[Summary::Min, Summary::Max]);
                let of = Aggregate {
                    summary,
                    distinct: false,
                    argument: Some(boxed(inner_column.clone())),
                    filter: None,
                };
                let is_summable = !matches!(inner_field.ty, Type::Bool | Type::Blob);
                let of = if is_summable { of } else { return self.condition(fields, 1) };
                let mut query = select(Expr::Aggregate(of), keys);
                if let Body::Select(select) = &mut query.body {
                    select.is_grouped = true;
                }
                let binary = self.pick(&[Binary::Equal, Binary::Less, Binary::GreaterOrEqual]);
                let scalar = Expr::Scalar(Box::new(query));
                Expr::Binary(binary, boxed(column(&field)), boxed(scalar), Type::Bool)
            }
        }
    }

    /// A source with up to `depth` joins or subqueries.
    fn from(&mut self, tables: &[Table], depth: usize) -> From {
        match self.below(10) {
            0..3 if depth > 0 => self.join(tables, depth - 1),
            3..5 if depth > 0 => self.derived(tables),
            _ => self.table(tables),
        }
    }

    fn join(&mut self, tables: &[Table], depth: usize) -> From {
        let left = self.from(tables, depth);
        let right = self.from(tables, 0);
        let kinds = [JoinKind::Inner, JoinKind::Left, JoinKind::Right, JoinKind::Full];
        let kind = if self.chance(5) { JoinKind::Cross } else { self.pick(&kinds) };
        let mut fields = left.fields.clone();
        fields.extend(right.fields.clone());
        let on = (kind != JoinKind::Cross).then(|| self.join_condition(&left, &right, &fields));
        let key = match left.key.is_empty() || right.key.is_empty() {
            true => Vec::new(),
            false => [left.key, right.key].concat(),
        };
        let source = Source::Join(kind, Box::new(left.source), Box::new(right.source), on);
        let condition = if self.chance(50) { left.condition } else { right.condition };
        let collections = [left.collections, right.collections].concat();
        From { source, fields, key, condition, collections }
    }

    fn join_condition(&mut self, left: &From, right: &From, fields: &[Field]) -> Expr {
        let mut on = None;
        for _ in 0..1 + self.below(2) {
            let field = self.pick(&left.fields);
            let Some((other, _)) = self.column(&right.fields, class(field.ty)) else { continue };
            let is_equal =
                Expr::Binary(Binary::Equal, boxed(column(&field)), boxed(other), Type::Bool);
            on = both(on, Some(is_equal));
        }
        if self.chance(25) {
            let other = self.condition(fields, 0);
            on = both(on, Some(other));
        }
        on.unwrap_or_else(|| self.condition(fields, 0))
    }

    /// A query as a source.
    fn derived(&mut self, tables: &[Table]) -> From {
        let from = self.table(tables);
        let picked: Vec<Field> = (0..1 + self.below(4)).map(|_| self.pick(&from.fields)).collect();
        let alias = self.alias();
        let mut items = Vec::new();
        let mut fields = Vec::new();
        for (at, field) in picked.iter().enumerate() {
            // Columns are instants, other timestamps are not: it is known what a column is.
            let is_computed = field.ty != Type::Timestamp && self.chance(25);
            let (expr, ty) = match is_computed {
                true => self.expr(&from.fields, class(field.ty), 1),
                false => (column(field), field.ty),
            };
            items.push((expr, format!("d{at}")));
            fields.push(Field { table: alias.clone(), name: format!("d{at}"), ty });
        }
        let condition = self.filter(tables, &from);
        let distinct = self.chance(15);
        let mut query = Query::of(Select {
            distinct,
            items,
            source: Some(from.source),
            condition,
            ..Select::default()
        });
        if self.chance(40) {
            self.limit_all(&mut query);
        }
        let source = Source::Query(Box::new(query), alias);
        From { source, fields, key: Vec::new(), condition: None, collections: Vec::new() }
    }

    /// A LIMIT that leaves nothing open: the order is by every column.
    fn limit_all(&mut self, query: &mut Query) {
        let descending = self.chance(50);
        query.order = query
            .names()
            .into_iter()
            .map(|name| {
                let mixed = self.chance(20);
                self.order(Expr::Column(String::new(), name), descending != mixed)
            })
            .collect();
        self.limit(query, 100);
    }

    /// A table, with conditions on its key.
    fn table(&mut self, tables: &[Table]) -> From {
        let alias = self.alias();
        self.table_as(tables, alias)
    }

    fn table_as(&mut self, tables: &[Table], alias: String) -> From {
        let table = self.pick(tables);
        let field = |column: &super::table::Column| Field {
            table: alias.clone(),
            name: column.name.clone(),
            ty: column.ty,
        };
        let (collections, fields): (Vec<Field>, Vec<Field>) =
            table.columns.iter().map(field).partition(|field| field.ty.is_collection());
        let key_fields: Vec<Field> = table
            .columns_of(|kind| matches!(kind, Kind::Partition | Kind::Clustering(_)))
            .iter()
            .map(field)
            .collect();
        let partition = table.partition_columns().len();
        let condition = self.key_condition(&key_fields, partition);
        let key = key_fields.iter().map(column).collect();
        let source = Source::Table(table.name, alias);
        From { source, fields, key, condition, collections }
    }

    /// Partition keys, then a prefix of the clustering key, then a range.
    fn key_condition(&mut self, key: &[Field], partition: usize) -> Option<Expr> {
        let mut all = None;
        for (at, field) in key.iter().enumerate() {
            let subject = column(field);
            let percent = if at < partition { 85 } else { 55 };
            if !self.chance(percent) {
                // Mostly nothing follows a column without a condition.
                if self.chance(70) {
                    break;
                }
                continue;
            }
            let is_range = at >= partition && self.chance(45);
            let condition = if is_range {
                self.range(subject, field.ty)
            } else if self.chance(65) {
                let value = self.literal(field.ty);
                Expr::Binary(Binary::Equal, boxed(subject), boxed(value), Type::Bool)
            } else {
                match self.in_list(subject, field.ty) {
                    Expr::In { value, list, .. } => Expr::In { value, list, negated: false },
                    other => other,
                }
            };
            all = both(all, Some(condition));
        }
        all
    }

    fn range(&mut self, subject: Expr, ty: Type) -> Expr {
        let bound = |generator: &mut Self, binaries: [Binary; 2]| {
            let (binary, value) = (generator.pick(&binaries), generator.literal(ty));
            Expr::Binary(binary, boxed(subject.clone()), boxed(value), Type::Bool)
        };
        match self.below(4) {
            0 => bound(self, [Binary::Less, Binary::LessOrEqual]),
            1 => bound(self, [Binary::Greater, Binary::GreaterOrEqual]),
            2 => {
                let (low, high) = (self.literal(ty), self.literal(ty));
                let value = boxed(subject.clone());
                Expr::Between { value, low: boxed(low), high: boxed(high), negated: false }
            }
            _ => {
                let low = bound(self, [Binary::Greater, Binary::GreaterOrEqual]);
                let high = bound(self, [Binary::Less, Binary::LessOrEqual]);
                both(Some(low), Some(high)).expect("two bounds")
            }
        }
    }

    fn distinct(&mut self, tables: &[Table]) -> Query {
        let (mut query, _) = self.ungrouped(tables, 1, true);
        if self.chance(50) {
            self.limit_all(&mut query);
        }
        query
    }

    pub fn aggregate(&mut self, fields: &[Field]) -> Expr {
        let field = self.pick(fields);
        let depth = usize::from(self.chance(30));
        let (mut argument, mut ty) = self.expr(fields, class(field.ty), depth);
        let mut is_constant = true;
        super::shrink::visit(&mut argument, &mut |part: &mut Expr| {
            is_constant &= !matches!(part, Expr::Column(..));
        });
        // The planner gives a count of a constant the name of `count(*)`, and refuses both at once.
        if is_constant {
            (argument, ty) = (column(&field), field.ty);
        }
        let summary = match class(ty) {
            Class::Bool => self.pick(&[Summary::Count, Summary::All, Summary::Any]),
            Class::Integer | Class::Floating | Class::Decimal => self.pick(&[
                Summary::Count,
                Summary::Sum,
                Summary::Sum,
                Summary::Min,
                Summary::Max,
                Summary::Average,
            ]),
            _ => self.pick(&[Summary::Count, Summary::Min, Summary::Max]),
        };
        let summary = match (summary, class(ty)) {
            (Summary::Average, Class::Decimal) if !self.features.decimal_averages => Summary::Sum,
            (summary, _) => summary,
        };
        let distinct = summary != Summary::All && summary != Summary::Any && self.chance(15);
        let filter = self.chance(15).then(|| boxed(self.condition(fields, 0)));
        if self.chance(20) {
            let summary = Summary::CountRows;
            return Expr::Aggregate(Aggregate { summary, distinct: false, argument: None, filter });
        }
        let argument = Some(boxed(argument));
        Expr::Aggregate(Aggregate { summary, distinct, argument, filter })
    }

    fn grouped(&mut self, tables: &[Table]) -> Query {
        let from = self.from(tables, 1);
        let condition = self.filter(tables, &from);
        let group: Vec<Expr> = (0..self.below(3))
            .map(|_| {
                let field = self.pick(&from.fields);
                match self.chance(75) {
                    true => column(&field),
                    false => self.expr(&from.fields, class(field.ty), 1).0,
                }
            })
            // A constant would be taken for the number of a column; a cast has the name of what it
            // casts, which may be there as well.
            .filter(|expr| !matches!(expr, Expr::Literal(_) | Expr::Cast(..)))
            .collect();
        let mut items: Vec<(Expr, String)> = Vec::new();
        for expr in &group {
            items.push((expr.clone(), format!("g{}", items.len())));
        }
        for _ in 0..1 + self.below(3) {
            items.push((self.aggregate(&from.fields), format!("g{}", items.len())));
        }
        let having = self.chance(20).then(|| {
            let count = Aggregate {
                summary: Summary::CountRows,
                distinct: false,
                argument: None,
                filter: None,
            };
            let least = constant(Value::Int(self.below(4) as i128), Type::BigInt);
            let binary = self.pick(&[Binary::GreaterOrEqual, Binary::Less]);
            Expr::Binary(binary, boxed(Expr::Aggregate(count)), boxed(least), Type::Bool)
        });
        let mut query = Query::of(Select {
            distinct: false,
            items,
            source: Some(from.source),
            condition,
            group,
            is_grouped: true,
            having,
        });
        if self.chance(40) {
            self.limit_all(&mut query);
        }
        query
    }

    /// Products, sums, quotients and casts of integers that are often out of range, and nothing
    /// that spares an engine one of them.
    pub fn extreme(&mut self, tables: &[Table]) -> Query {
        let from = self.table(tables);
        let integers: Vec<Field> =
            from.fields.iter().filter(|field| field.ty.is_integer()).cloned().collect();
        let subject = match integers.is_empty() {
            true => constant(Value::Int(5), Type::BigInt),
            false => column(&self.pick(&integers)),
        };
        let constant = |int: i128| boxed(constant(Value::Int(int), Type::BigInt));
        let binary =
            |binary, left: Expr, right| Expr::Binary(binary, boxed(left), right, Type::BigInt);
        let product =
            binary(Binary::Multiply, subject.clone(), constant(1 << (58 + self.below(5))));
        let way = self.below(4);
        let item = match way {
            0 => Expr::Aggregate(Aggregate {
                summary: Summary::Sum,
                distinct: self.chance(40),
                argument: Some(boxed(product)),
                filter: None,
            }),
            1 => {
                let key = |expr: &Expr| Order {
                    expr: expr.clone(),
                    descending: false,
                    nulls_first: None,
                };
                Expr::Window(Window {
                    function: WindowFunction::Over(Summary::Sum, Some(boxed(product))),
                    partition: Vec::new(),
                    order: from.key.iter().map(key).collect(),
                    frame: Frame::Rows(Some(self.below(4)), Some(self.below(2))),
                })
            }
            2 => {
                let divisor = constant(self.below(9) as i128 - 2);
                let divisor = boxed(binary(Binary::Subtract, subject.clone(), divisor));
                binary(self.pick(&[Binary::Divide, Binary::Remainder]), subject, divisor)
            }
            _ => Expr::Cast(boxed(product), Type::Int, false),
        };
        let group = match way == 0 && self.chance(50) {
            true => vec![from.key[0].clone()],
            false => Vec::new(),
        };
        Query::of(Select {
            distinct: false,
            items: vec![(item, "x0".to_owned())],
            source: Some(from.source),
            condition: None,
            group,
            is_grouped: way == 0,
            having: None,
        })
    }

    fn windowed(&mut self, tables: &[Table]) -> Query {
        let from = self.table(tables);
        let condition = self.filter(tables, &from);
        let mut items = Vec::new();
        for field in from.key.iter().take(2) {
            items.push((field.clone(), format!("w{}", items.len())));
        }
        for _ in 0..1 + self.below(2) {
            let window = self.window(&from);
            items.push((Expr::Window(window), format!("w{}", items.len())));
        }
        let mut query =
            Query::of(Select { items, source: Some(from.source), condition, ..Select::default() });
        if self.chance(30) {
            self.limit_all(&mut query);
        }
        query
    }

    fn window(&mut self, from: &From) -> Window {
        let partition = match self.below(3) {
            0 => Vec::new(),
            1 => vec![from.key[0].clone()],
            _ => {
                let field = self.pick(&from.fields);
                vec![column(&field)]
            }
        };
        let mut order: Vec<Order> = Vec::new();
        if self.chance(60) {
            let (field, descending) = (self.pick(&from.fields), self.chance(50));
            order.push(self.order(column(&field), descending));
        }
        let descending = self.chance(30);
        // Of rows that sort alike these say all the same.
        let is_free = self.chance(35);
        let function = if is_free {
            self.pick(&[WindowFunction::Rank, WindowFunction::DenseRank])
        } else {
            order.extend(from.key.iter().map(|expr| Order {
                expr: expr.clone(),
                descending,
                nulls_first: None,
            }));
            let field = self.pick(&from.fields);
            let expr = boxed(column(&field));
            match self.below(8) {
                0 => WindowFunction::RowNumber,
                1 => WindowFunction::Lag(expr, 1 + self.below(2)),
                2 => WindowFunction::Lead(expr, 1 + self.below(2)),
                3 => WindowFunction::FirstValue(expr),
                4 => WindowFunction::LastValue(expr),
                5 => WindowFunction::NthValue(expr, 1 + self.below(3)),
                _ => {
                    let summary = match class(field.ty) {
                        Class::Integer => {
                            self.pick(&[Summary::Sum, Summary::Average, Summary::Min, Summary::Max])
                        }
                        Class::Decimal => self.pick(&[Summary::Sum, Summary::Min, Summary::Max]),
                        // Sums that move take away what they added: NaN would stay.
                        Class::Bool | Class::Blob | Class::Floating => Summary::Count,
                        _ => self.pick(&[Summary::Count, Summary::Min, Summary::Max]),
                    };
                    WindowFunction::Over(summary, Some(expr))
                }
            }
        };
        if order.is_empty() {
            order.push(Order { expr: from.key[0].clone(), descending, nulls_first: None });
        }
        let is_framed = !matches!(
            function,
            WindowFunction::RowNumber
                | WindowFunction::Rank
                | WindowFunction::DenseRank
                | WindowFunction::Lag(..)
                | WindowFunction::Lead(..)
        );
        let frame = if is_framed && self.chance(60) {
            let bound = |generator: &mut Self| (!generator.chance(30)).then(|| generator.below(3));
            Frame::Rows(bound(self), bound(self))
        } else {
            Frame::Default
        };
        Window { function, partition, order, frame }
    }

    fn set(&mut self, tables: &[Table]) -> Query {
        let operations = [SetOperation::Union, SetOperation::Intersect, SetOperation::Except];
        let operation = self.pick(&operations);
        let first = self.from(tables, 1);
        let classes: Vec<Class> = (0..1 + self.below(2))
            .map(|_| {
                let field = self.pick(&first.fields);
                class(field.ty)
            })
            .collect();
        let (second, all) = (self.from(tables, 0), self.chance(50));
        let mut side = |from: From| {
            let items = classes
                .iter()
                .enumerate()
                .map(|(at, wanted)| {
                    let depth = usize::from(self.chance(25));
                    (self.expr(&from.fields, *wanted, depth).0, format!("s{at}"))
                })
                .collect();
            let condition = self.filter(tables, &from);
            Box::new(Query::of(Select {
                items,
                source: Some(from.source),
                condition,
                ..Select::default()
            }))
        };
        let (left, right) = (side(first), side(second));
        let mut query = Query {
            with: Vec::new(),
            body: Body::Set(operation, all, left, right),
            order: Vec::new(),
            limit: None,
            offset: 0,
        };
        if self.chance(50) {
            self.limit_all(&mut query);
        }
        query
    }

    /// Constants alone: what the planner works out itself.
    fn values(&mut self) -> Query {
        let classes = [Class::Integer, Class::Text, Class::Bool, Class::Timestamp, Class::Floating];
        let items = (0..1 + self.below(3))
            .map(|at| {
                let wanted = self.pick(&classes);
                (self.constant_expr(wanted, 2), format!("r{at}"))
            })
            .collect();
        Query::of(Select { items, ..Select::default() })
    }

    /// An expression over constants: made over the fields of a row, which constants then replace.
    fn constant_expr(&mut self, wanted: Class, depth: usize) -> Expr {
        let types = [Type::BigInt, Type::Text, Type::Bool, Type::Timestamp, Type::Double];
        let fields: Vec<Field> = types
            .iter()
            .enumerate()
            .map(|(at, ty)| Field { table: "k".into(), name: at.to_string(), ty: *ty })
            .collect();
        let mut expr = self.expr(&fields, wanted, depth).0;
        let mut replace = |part: &mut Expr| match part {
            Expr::Column(_, name) => {
                let at: usize = name.parse().expect("fields are numbered");
                *part = self.sure_constant(class(types[at])).0;
            }
            // Only columns are instants.
            Expr::Part(_, _, zone) => *zone = "UTC",
            _ => {}
        };
        super::shrink::visit(&mut expr, &mut replace);
        expr
    }

    fn with(&mut self, tables: &[Table]) -> Query {
        let from = self.table(tables);
        let name = self.alias();
        let items = self.items(&from.fields, 0);
        let fields: Vec<Field> = items
            .iter()
            .map(|(expr, item)| {
                let is_it = |field: &&Field| column(field) == *expr;
                let ty = from.fields.iter().find(is_it).expect("items are columns").ty;
                Field { table: name.clone(), name: item.clone(), ty }
            })
            .collect();
        let inner = Query::of(Select {
            items,
            source: Some(from.source),
            condition: from.condition,
            ..Select::default()
        });
        let (left, right) = (self.alias(), self.alias());
        let named = |alias: &String| -> Vec<Field> {
            fields.iter().map(|field| Field { table: alias.clone(), ..field.clone() }).collect()
        };
        let both_fields = [named(&left), named(&right)].concat();
        let is_equal = Expr::Binary(
            Binary::Equal,
            boxed(column(&named(&left)[0])),
            boxed(column(&named(&right)[0])),
            Type::Bool,
        );
        let table = |alias: &String| Box::new(Source::Table(name.clone(), alias.clone()));
        let source = Source::Join(JoinKind::Inner, table(&left), table(&right), Some(is_equal));
        let mut query = Query::of(Select {
            items: self.items(&both_fields, 1),
            source: Some(source),
            condition: self.chance(40).then(|| self.condition(&both_fields, 1)),
            ..Select::default()
        });
        query.with.push((name, inner));
        query
    }
}
