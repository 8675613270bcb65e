//! simd/mod
