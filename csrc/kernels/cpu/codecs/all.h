// The kernels of all codecs. Include only from table_<isa>.cc.
#pragma once

#include "kernels/cpu/codecs/fp8.h"
#include "kernels/cpu/codecs/int8.h"
#include "kernels/cpu/codecs/qsgd.h"
#include "kernels/cpu/codecs/sign.h"
#include "kernels/cpu/codecs/ternary.h"
#include "kernels/cpu/codecs/threshold.h"
