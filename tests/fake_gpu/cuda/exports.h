// What the fake library offers by name.
#pragma once

#define EXPORT extern "C" __attribute__((visibility("default")))
