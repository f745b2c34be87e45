// Builds the table of one instruction set. Include only from table_<isa>.cc.
#pragma once

#include "kernels/cpu/adasum_impl.h"
#include "kernels/cpu/codecs/all.h"
#include "kernels/cpu/digest_impl.h"
#include "kernels/cpu/reduce_impl.h"
#include "kernels/cpu/select_impl.h"
#include "kernels/cpu/table.h"

namespace hvdlite::kernels::cpu {
namespace {

template <class Element, class Op>
constexpr void FillFloatingOp(KernelTable::ReduceKernel* scalings) {
  scalings[static_cast<int>(Scaling::kNone)] = &Reduce<Element, Op, Scaling::kNone>;
  scalings[static_cast<int>(Scaling::kFinal)] = &Reduce<Element, Op, Scaling::kFinal>;
  scalings[static_cast<int>(Scaling::kAll)] = &Reduce<Element, Op, Scaling::kAll>;
}

template <class Element>
constexpr void FillFloating(KernelTable::ReduceKernel (&ops)[kCombineCount][kScalingCount]) {
  FillFloatingOp<Element, Sum>(ops[static_cast<int>(Combine::kSum)]);
  FillFloatingOp<Element, Product>(ops[static_cast<int>(Combine::kProduct)]);
  FillFloatingOp<Element, NanWins<Min>>(ops[static_cast<int>(Combine::kMin)]);
  FillFloatingOp<Element, NanWins<Max>>(ops[static_cast<int>(Combine::kMax)]);
}

template <class Half>
constexpr void FillHalf(KernelTable& table, DType dtype) {
  const int i = static_cast<int>(dtype);
  FillFloating<Half>(table.reduce[i]);
  FillFloating<Widened<Half>>(table.reduce_wide[i]);
  table.round[i] = &Reduce<Narrowed<Half>, Sum, Scaling::kNone>;
}

template <class Element, class AddOp, class MultiplyOp, class MinOp, class MaxOp,
          class Ordered = Element>
constexpr void FillUnscaled(KernelTable& table, DType dtype) {
  auto& ops = table.reduce[static_cast<int>(dtype)];
  constexpr int kNone = static_cast<int>(Scaling::kNone);
  ops[static_cast<int>(Combine::kSum)][kNone] = &Reduce<Element, AddOp, Scaling::kNone>;
  ops[static_cast<int>(Combine::kProduct)][kNone] = &Reduce<Element, MultiplyOp, Scaling::kNone>;
  ops[static_cast<int>(Combine::kMin)][kNone] = &Reduce<Ordered, MinOp, Scaling::kNone>;
  ops[static_cast<int>(Combine::kMax)][kNone] = &Reduce<Ordered, MaxOp, Scaling::kNone>;
}

// Sums and products of signed integers are those of unsigned ones: the same bits, and wrapping is
// defined.
template <class Unsigned, class Signed>
constexpr void FillIntegers(KernelTable& table, DType unsigned_dtype, DType signed_dtype) {
  FillUnscaled<Plain<Unsigned>, Sum, Product, Min, Max>(table, unsigned_dtype);
  FillUnscaled<Plain<Unsigned>, Sum, Product, Min, Max, Plain<Signed>>(table, signed_dtype);
}

constexpr KernelTable MakeTable(const char* name) {
  KernelTable table = {};
  table.name = name;
  FillUnscaled<Bool, Or, Min, Min, Or>(table, DType::kBool);
  FillIntegers<uint8_t, int8_t>(table, DType::kUInt8, DType::kInt8);
  FillIntegers<uint16_t, int16_t>(table, DType::kUInt16, DType::kInt16);
  FillIntegers<uint32_t, int32_t>(table, DType::kUInt32, DType::kInt32);
  FillIntegers<uint64_t, int64_t>(table, DType::kUInt64, DType::kInt64);
  FillHalf<Float16>(table, DType::kFloat16);
  FillHalf<BFloat16>(table, DType::kBFloat16);
  FillFloating<Plain<float>>(table.reduce[static_cast<int>(DType::kFloat32)]);
  FillFloating<Plain<double>>(table.reduce[static_cast<int>(DType::kFloat64)]);

  table.dot[static_cast<int>(DType::kFloat16)] = &Dot<HalfLanes<Float16>>;
  table.dot[static_cast<int>(DType::kBFloat16)] = &Dot<HalfLanes<BFloat16>>;
  table.dot[static_cast<int>(DType::kFloat32)] = &Dot<PlainLanes<float>>;
  table.dot[static_cast<int>(DType::kFloat64)] = &Dot<PlainLanes<double>>;
  table.blend[static_cast<int>(DType::kFloat16)] = &Blend<BlendInFloat<Float16>, 2>;
  table.blend[static_cast<int>(DType::kBFloat16)] = &Blend<BlendInFloat<BFloat16>, 2>;
  table.blend[static_cast<int>(DType::kFloat32)] = &Blend<BlendInDouble<float>, 4>;
  table.blend[static_cast<int>(DType::kFloat64)] = &Blend<BlendInDouble<double>, 8>;
  table.digest = &DigestStripes;
  table.select = &selecting::Select;
#define HVDLITE_CODEC(enumerator, number, ...) \
  table.codecs[number] = codecs::KernelOf<codecs::enumerator>();
#include "base/tensor_codecs.def"
#undef HVDLITE_CODEC
  return table;
}

}  // namespace
}  // namespace hvdlite::kernels::cpu
