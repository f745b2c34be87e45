// Our own declarations of NCCL's functions, compared with nccl.h where it is installed.
#include <gtest/gtest.h>

#include <cstddef>

#include "comm/nccl/library.h"
#include "testing/same_function.h"

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>

namespace hvdlite::comm::nccl {
namespace {

using hvdlite::testing::kSameFunction;

#define HVDLITE_NCCL(returns, name, parameters)                                \
  static_assert(kSameFunction<decltype(Library::name), decltype(&nccl##name)>, \
                "nccl" #name " has other parameters");
#include "comm/nccl/functions.def"
#undef HVDLITE_NCCL
static_assert(kSameFunction<decltype(Library::GetLastError), decltype(&ncclGetLastError)>);

TEST(NcclAbi, IsThatOfNcclH) {
  static_assert(int{kSuccess} == ncclSuccess && int{kUnhandledCudaError} == ncclUnhandledCudaError);
  static_assert(int{kSystemError} == ncclSystemError && int{kInternalError} == ncclInternalError);
  static_assert(int{kInvalidArgument} == ncclInvalidArgument &&
                int{kInvalidUsage} == ncclInvalidUsage);
  static_assert(int{kRemoteError} == ncclRemoteError && int{kInProgress} == ncclInProgress);
  static_assert(int{kInt8} == ncclInt8 && int{kUint8} == ncclUint8 && int{kInt32} == ncclInt32);
  static_assert(int{kUint32} == ncclUint32 && int{kInt64} == ncclInt64 &&
                int{kUint64} == ncclUint64);
  static_assert(int{kFloat16} == ncclFloat16 && int{kFloat32} == ncclFloat32 &&
                int{kFloat64} == ncclFloat64);
  static_assert(int{kBfloat16} == ncclBfloat16);
  static_assert(int{kSum} == ncclSum && int{kProd} == ncclProd && int{kMax} == ncclMax &&
                int{kMin} == ncclMin);
  static_assert(int{kAvg} == ncclAvg);
  static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId) &&
                sizeof(UniqueId) == NCCL_UNIQUE_ID_BYTES);
  static_assert(offsetof(Config, size) == offsetof(ncclConfig_t, size));
  static_assert(offsetof(Config, version) == offsetof(ncclConfig_t, version));
  static_assert(offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking));
  static_assert(offsetof(Config, cga_cluster_size) == offsetof(ncclConfig_t, cgaClusterSize));
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const Config ours;
  EXPECT_EQ(ours.magic, theirs.magic);
  EXPECT_EQ(ours.cga_cluster_size, theirs.cgaClusterSize);
  EXPECT_LE(ours.size, theirs.size);
}

}  // namespace
}  // namespace hvdlite::comm::nccl

#else

TEST(NcclAbi, IsThatOfNcclH) {
  GTEST_SKIP() << "NCCL's header is not installed here: nccl.h was not found";
}

#endif
