// The functions of kernels/codec.h, which has the contracts, with the table of kernels as an
// argument. So tests can run every instruction set that this CPU has.
#pragma once

#include <cstdint>

#include "kernels/codec.h"
#include "kernels/cpu/table.h"

namespace hvdlite::kernels::cpu {

int64_t EncodedBytes(const KernelTable& table, const CodecSpec& spec, int64_t count);
void Encode(const KernelTable& table, const CodecSpec& spec, const Encoded& what, int64_t count,
            const Draws& draws, void* encoded, float* lost = nullptr);
void Decode(const KernelTable& table, const CodecSpec& spec, const void* encoded, int64_t count,
            float* values, bool add);

}  // namespace hvdlite::kernels::cpu
