declare module "idiomorph/dist/idiomorph.esm.js" {
  export const Idiomorph: {
    morph(target: Element, content: string | Node, config?: Record<string, unknown>): Node[] | undefined;
  };
}
declare module "*.css";
