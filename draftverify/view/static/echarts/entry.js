// The parts of Apache ECharts 6.1.0 that the report draws with. echarts.min.js is made from this file by
//
//   npm install --no-save echarts@6.1.0 esbuild@0.25.12
//   npx esbuild entry.js --bundle --minify --format=iife --global-name=echarts --target=es2020 \
//     --legal-comments=none --banner:js="/* Apache ECharts 6.1.0, Apache-2.0: see LICENSE and NOTICE */" \
//     --outfile=echarts.min.js
import { BarChart, CustomChart, LineChart, SankeyChart, ScatterChart } from "echarts/charts";
import { GridComponent, LegendComponent, MarkLineComponent, TooltipComponent } from "echarts/components";
import { init, use, version } from "echarts/core";
import { SVGRenderer } from "echarts/renderers";

use([
  BarChart, CustomChart, LineChart, SankeyChart, ScatterChart,
  GridComponent, LegendComponent, MarkLineComponent, TooltipComponent, SVGRenderer,
]);

export { init, version };
