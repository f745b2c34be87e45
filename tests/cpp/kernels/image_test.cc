#include "kernels/cuda/image.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string_view>

namespace hvdlite::kernels::cuda {
namespace {

constexpr std::array<Image, 4> kImages = {
    {{7, 5, true, "", 1}, {8, 0, false, "", 1}, {8, 6, false, "", 1}, {9, 0, false, "", 1}}};

TEST(ImageTest, ADeviceGetsTheMachineCodeThatIsNearest) {
  EXPECT_EQ(ChooseImage(kImages, 8, 0), &kImages[1]);
  EXPECT_EQ(ChooseImage(kImages, 8, 6), &kImages[2]);
  EXPECT_EQ(ChooseImage(kImages, 8, 9), &kImages[2]);
  EXPECT_EQ(ChooseImage(kImages, 9, 0), &kImages[3]);
}

TEST(ImageTest, ADeviceWithoutMachineCodeOfItsOwnGetsPtx) {
  EXPECT_EQ(ChooseImage(kImages, 7, 5), &kImages[0]);
  EXPECT_EQ(ChooseImage(kImages, 12, 0), &kImages[0]);
}

TEST(ImageTest, ADeviceThatIsTooOldGetsNothing) {
  EXPECT_EQ(ChooseImage(kImages, 7, 0), nullptr);
  EXPECT_EQ(ChooseImage({}, 9, 0), nullptr);
}

TEST(ImageTest, WhatThisBuildCarriesIsWhatItSays) {
  EXPECT_EQ(Images().empty(), std::string_view(Compiler()).empty());
  for (const Image& image : Images()) {
    const std::string_view content(static_cast<const char*>(image.data), image.bytes);
    if (image.ptx) {
      EXPECT_NE(content.find(".visible .entry hvdlite_copy_4"), std::string_view::npos);
      EXPECT_LE(std::strlen(static_cast<const char*>(image.data)), image.bytes)
          << "the driver reads PTX as a text";
    } else {
      EXPECT_EQ(content.substr(1, 3), "ELF");
      EXPECT_NE(content.find("hvdlite_copy_4"), std::string_view::npos);
    }
  }
}

}  // namespace
}  // namespace hvdlite::kernels::cuda
