// Our own declarations of the driver's functions, compared with cuda.h where a CUDA toolkit is
// installed.
#include <gtest/gtest.h>

#include <cstring>

#include "device/driver.h"
#include "testing/same_function.h"

#if __has_include(<cuda.h>)
#define __CUDA_API_VERSION_INTERNAL  // names mean what the library calls so
#include <cuda.h>

namespace hvdlite::device {
namespace {

using testing::kSameFunction;

#define HVDLITE_CUDA(name, symbol, parameters)                                      \
  static_assert(kSameFunction<decltype(Driver::name), decltype(&(symbol))>, #symbol \
                " has other parameters in "                                         \
                "cuda.h");
#include "device/functions.def"
#undef HVDLITE_CUDA

TEST(DriverAbi, IsThatOfCudaH) {
  EXPECT_EQ(kSuccess, static_cast<int>(CUDA_SUCCESS));
  EXPECT_EQ(kOutOfMemory, static_cast<int>(CUDA_ERROR_OUT_OF_MEMORY));
  EXPECT_EQ(kNotReady, static_cast<int>(CUDA_ERROR_NOT_READY));
  EXPECT_EQ(sizeof(Uuid), sizeof(CUuuid));
  PoolProps ours;
  ours.device = 3;
  CUmemPoolProps theirs = {};
  theirs.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  theirs.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
  theirs.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  theirs.location.id = 3;
  ASSERT_EQ(sizeof(ours), sizeof(theirs));
  EXPECT_EQ(std::memcmp(&ours, &theirs, sizeof(ours)), 0);
}

}  // namespace
}  // namespace hvdlite::device

#else

TEST(DriverAbi, IsThatOfCudaH) {
  GTEST_SKIP() << "no CUDA toolkit is installed here: cuda.h was not found";
}

#endif
