// Links to the session's CSV files; the server streams them. What is as it was is left alone, it may be being clicked.
export default function ({ data, parentElement }) {
  const root = parentElement.querySelector('.downloads');
  for (const [name, colour] of Object.entries(data.colours)) root.style.setProperty(`--pd-${name}`, colour);
  const told = JSON.stringify(data.files) + data.off + data.session;
  if (root.told === told) return;
  root.told = told;
  data.files.forEach((file, index) => {
    let link = root.children[index];
    if (!link) {
      link = document.createElement('a');
      root.appendChild(link);
    }
    link.textContent = file.name;
    link.title = file.hint;
    link.classList.toggle('off', data.off);
    link.setAttribute('aria-disabled', String(data.off));
    if (data.off) link.removeAttribute('href');
    else link.href = `/export/${file.name}`;
    link.download = `${data.session}-${file.name}`;
  });
}
