// Finding NCCL, and what is said when there is none that can be used.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "comm/nccl/library.h"
#include "testing/fake_nccl.h"
#include "testing/says.h"

namespace hvdlite::comm::nccl {
namespace {

using hvdlite::testing::FakeNccl;

Status TryLoad(const Places& places, std::string* origin = nullptr) {
  std::shared_ptr<const Library> library;
  const Status status = Load(places, &library);
  if (status.ok() && origin != nullptr) *origin = library->origin;
  return status;
}

TEST(NcclLibrary, WhatIsWantedIsTakenAndNothingElse) {
  std::string origin;
  EXPECT_TRUE(TryLoad({FakeNccl::kLibrary, "/nowhere/libnccl.so.2"}, &origin).ok());
  EXPECT_EQ(origin, std::string("HVDLITE_NCCL_LIBRARY=") + FakeNccl::kLibrary);
  const Status status = TryLoad({"/nowhere/libnccl.so.2", FakeNccl::kLibrary});
  EXPECT_TRUE(
      FailsWith(status, StatusCode::kUnsupported, "HVDLITE_NCCL_LIBRARY=/nowhere/libnccl.so.2"));
}

// This program is linked to the fake, so it is there, as it is once PyTorch is imported.
TEST(NcclLibrary, WhatIsLoadedAlreadyComesBeforeTheWheel) {
  std::string origin;
  EXPECT_TRUE(TryLoad({"", "/nowhere/libnccl.so.2"}, &origin).ok());
  EXPECT_EQ(origin, "loaded by the framework");
}

// Of a name under which nothing is loaded here.
TEST(NcclLibrary, WhereNoneIsLoadedTheWheelComesBeforeTheSystem) {
  namespace fs = std::filesystem;
  const fs::path root =
      fs::path(::testing::TempDir()) / ("nccl-wheels-" + std::to_string(getpid()));
  static int times = 0;
  const std::string name = "libnccl-of-nobody.so." + std::to_string(++times);
  const std::string wheel = root / "packages" / "nvidia" / "nccl" / "lib" / name;
  fs::create_directories(fs::path(wheel).parent_path());
  const std::string folders = (root / "not there").string() + "::" + (root / "packages").string();
  const std::string nowhere = name + ": cannot open shared object file: No such file or directory";
  Status status = TryLoad({"", folders, name});
  EXPECT_TRUE(FailsWith(status, StatusCode::kUnsupported, nowhere));
  EXPECT_FALSE(Says(status, wheel));
  std::ofstream(wheel) << "no library";
  status = TryLoad({"", folders, name});
  EXPECT_TRUE(Says(status, wheel + ": "));
  EXPECT_TRUE(Says(status, nowhere));
  fs::copy_file(FakeNccl::kLibrary, wheel, fs::copy_options::overwrite_existing);
  std::string origin;
  EXPECT_TRUE(TryLoad({"", folders, name}, &origin).ok());
  EXPECT_EQ(origin, wheel);
  fs::remove_all(root);
  // Something that every system has.
  status = TryLoad({"", folders, "libutil.so.1"});
  EXPECT_TRUE(Says(status, "does not say which version it is"));
}

TEST(NcclLibrary, AnOldOneIsRefusedByVersion) {
  const FakeNccl fake;
  fake_nccl_set("version", 21705);
  const Status status = TryLoad({FakeNccl::kLibrary, ""});
  EXPECT_TRUE(FailsWith(status, StatusCode::kUnsupported,
                        "is version 2.17.5, but hvdlite needs 2.18.0 or newer"));
}

TEST(NcclLibrary, AnotherLibraryIsRefused) {
  const Status status = TryLoad({"libc.so.6", ""});
  EXPECT_TRUE(Says(status, "does not say which version it is"));
}

TEST(NcclLibrary, OneThatLacksAFunctionIsRefusedByTheFunctionsName) {
  const std::string bare =
      std::filesystem::path(FakeNccl::kLibrary).replace_filename("libbare_nccl.so");
  const Status status = TryLoad({bare, ""});
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(status.message(),
            "NCCL cannot be used: there is no ncclGetErrorString in it (HVDLITE_NCCL_LIBRARY=" +
                bare + ")");
}

TEST(NcclLibrary, APackageSaysForWhichCudaItIs) {
  namespace fs = std::filesystem;
  const fs::path packages =
      fs::path(::testing::TempDir()) / ("nccl-packages-" + std::to_string(getpid()));
  const std::string file = packages / "nvidia" / "nccl" / "lib" / "libnccl.so.2";
  fs::create_directories(packages / "nvidia" / "nccl" / "lib");
  EXPECT_EQ(CudaOfPackage(file), 0);
  fs::create_directories(packages / "nvidia_cublas_cu12-12.1.dist-info");
  EXPECT_EQ(CudaOfPackage(file), 0);
  fs::create_directories(packages / "nvidia_nccl_cu13-2.28.3.dist-info");
  EXPECT_EQ(CudaOfPackage(file), 13);
  fs::copy_file(FakeNccl::kLibrary, file);
  std::shared_ptr<const Library> library;
  ASSERT_TRUE(Load({file, ""}, &library).ok());
  EXPECT_EQ(library->cuda, 13);
  fs::create_directories(packages / "nvidia_nccl_cu12-2.27.3.dist-info");
  EXPECT_EQ(CudaOfPackage(file), 0);  // nobody knows which of the two has written its library last
  fs::remove_all(packages);
  EXPECT_EQ(CudaOfPackage("libnccl.so.2"), 0);
  EXPECT_EQ(CudaOfPackage(""), 0);
}

TEST(NcclLibrary, VersionsAreWrittenAsNcclWritesThem) {
  EXPECT_EQ(VersionText(2804), "2.8.4");
  EXPECT_EQ(VersionText(21805), "2.18.5");
  EXPECT_EQ(VersionText(23203), "2.32.3");
}

TEST(NcclLibrary, AFailureHasWhatWasDoneAndNcclsWords) {
  const auto library = FakeNccl::library();
  EXPECT_TRUE(library->Check(kSuccess, "x", nullptr).ok());
  EXPECT_TRUE(library->Check(kInProgress, "x", nullptr).ok());
  EXPECT_EQ(library->Check(kInvalidUsage, "a group", nullptr).ToString(),
            Status::Io("NCCL failed in a group: invalid usage; NCCL_DEBUG=WARN makes NCCL say more")
                .ToString());
  EXPECT_EQ(library->Check(kRemoteError, "a group", nullptr).code(), StatusCode::kPeerLost);
}

}  // namespace
}  // namespace hvdlite::comm::nccl
